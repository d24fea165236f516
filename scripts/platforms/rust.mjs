// Builds the addon for targets that the installed toolchain may not support.
import { copyFileSync, existsSync, mkdirSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { output, requireCargo, run } from "../lib/run.mjs";
import { home, need } from "./toolbox.mjs";

/**
 * Returns how to compile for a target: with the toolchain in PATH if it has the target, otherwise with
 * Debian's, which has the source of the standard library and can build it for any target.
 */
function toolchain(target) {
  requireCargo();
  const sysroot = output("rustc", ["--print", "sysroot"]).trim();
  if (existsSync(join(sysroot, "lib", "rustlib", target, "lib"))) {
    return { cargo: "cargo", args: [], env: {} };
  }
  need("/usr/bin/cargo", "/usr/bin/rustc", "/usr/lib/rustlib/src/rust/library/std/Cargo.toml");
  return {
    cargo: "/usr/bin/cargo",
    args: ["-Zbuild-std=std,panic_unwind"],
    env: {
      CARGO: "/usr/bin/cargo",
      RUSTC: "/usr/bin/rustc",
      RUSTDOC: "/usr/bin/rustdoc",
      // Debian's compiler is a stable release, which refuses this option otherwise.
      RUSTC_BOOTSTRAP: "1",
    },
  };
}

/**
 * Runs a cargo command for a target.
 * @param {string} name of the platform
 * @param {object} options
 * @param {string} options.target
 * @param {string[]} options.command e.g. `["build", "--release"]`
 * @param {Record<string, string>} [options.env]
 * @param {string} [options.zigbuild] the path of cargo-zigbuild, if it should run the command
 * @param {string} [options.glibc] the oldest supported glibc
 */
export async function cargoFor(name, { target, command, env = {}, zigbuild, glibc }) {
  const chain = toolchain(target);
  const [verb, ...rest] = command;
  const exact = glibc ? `${target}.${glibc}` : target;
  const args = [...rest, "--lib", ...chain.args, "--target", exact];
  await run(zigbuild ?? chain.cargo, [zigbuild && verb === "build" ? "zigbuild" : verb, ...args], {
    env: { ...chain.env, CARGO_TARGET_DIR: join(home, name, "cargo"), ...env },
  });
}

/** Builds the addon and returns its path. */
export async function buildAddon(name, options) {
  await cargoFor(name, { ...options, command: ["build", "--release"] });
  const { target } = options;
  const library = target.includes("windows") ? "syncguard.dll" : "libsyncguard.so";
  const addon = join(home, name, "syncguard.node");
  mkdirSync(join(home, name), { recursive: true });
  copyFileSync(join(home, name, "cargo", target, "release", library), addon);
  return addon;
}

/** Builds the core's own tests, which need no Node.js, and returns the path of the test program. */
export async function buildTests(name, options) {
  const command = ["test", "--no-run", "--no-default-features"];
  await cargoFor(name, { ...options, command });
  const folder = join(home, name, "cargo", options.target, "debug", "deps");
  const programs = readdirSync(folder)
    .filter((file) => /^syncguard-[0-9a-f]+(\.exe)?$/.test(file))
    .map((file) => join(folder, file));
  const age = (file) => statSync(file).mtimeMs;
  return programs.sort((a, b) => age(b) - age(a))[0];
}
