// Builds the addon into js/native/, in one of two ways.
import { copyFileSync, existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { platformPackages } from "./packages.mjs";
import { cargo, cargoTarget, Failure, output, root, tool } from "./run.mjs";

const folder = join(root, "js", "native");
/** The folder where napi's macros write the types of the exports, as set in `.cargo/config.toml`. */
const typeDefinitions = join(root, "target", "type-definitions");
const LIBRARY = { darwin: "libsyncguard.dylib", win32: "syncguard.dll" };

/** Builds the optimised addon, as it is published. This takes several minutes of CPU time. */
export async function buildReleaseAddon() {
  const output = ["--output-dir", "js/native", "--dts", "binding.d.ts"];
  const how = ["--platform", "--release", "--no-js", ...output];
  await tool("@napi-rs/cli/dist/cli.js", ["build", ...how]);
}

/**
 * Builds an unoptimised addon with cargo, which shares its output with `cargo test` and the Firestore
 * emulator. napi's own command would compile everything a second time, for an explicit target. The
 * emulator is built too, because its dependencies decide the features of the shared crates.
 */
export async function buildQuickAddon({ tests = false } = {}) {
  const build = [
    "build",
    "--lib",
    "--example",
    "firestore_emulator",
    ...(tests ? ["--tests"] : []),
  ];
  await cargo(build);
  const written = join(typeDefinitions, "syncguard");
  if (!existsSync(written)) {
    // The file was removed, but cargo's other output was not.
    await cargo(["clean", "--package", "syncguard"]);
    await cargo(build);
  }
  const library = LIBRARY[process.platform] ?? "libsyncguard.so";
  const addon = join(folder, addonName());
  // Replace the file instead of overwriting it, because running programs may have loaded it.
  copyFileSync(join(cargoTarget, "debug", library), `${addon}.tmp`);
  renameSync(`${addon}.tmp`, addon);
  await writeTypes(written);
}

function addonName() {
  const [, host] = /^host: (.+)$/m.exec(output("rustc", ["-vV"])) ?? [];
  const platform = platformPackages().find(({ target }) => target === host);
  if (!platform) throw new Failure(`There is no package for ${host} in napi.targets.`);
  return platform.manifest.main;
}

/** Writes js/native/binding.d.ts from the types that the compiler has left. */
async function writeTypes(written) {
  // If the library and its tests were compiled together, every type is there twice.
  const lines = new Set(readFileSync(written, "utf8").split("\n"));
  writeFileSync(written, [...lines].join("\n"));
  const { generateTypeDef } = await import("@napi-rs/cli");
  const { dts } = await generateTypeDef({ typeDefDir: typeDefinitions, cwd: root });
  writeFileSync(join(folder, "binding.d.ts"), dts);
}
