// Linux x64, for systems older than the build machine.
import { neededGlibc } from "./glibc.mjs";
import { buildAddon } from "./rust.mjs";
import { smoke } from "./trial.mjs";
import { GLIBC, zig } from "./zig.mjs";

const NAME = "linux-x64-old-glibc";

export async function build() {
  return buildAddon(NAME, { target: "x86_64-unknown-linux-gnu", glibc: GLIBC, ...(await zig()) });
}

export async function attempt(addon) {
  const glibc = neededGlibc(addon);
  return `needs glibc ${glibc}; ${await smoke(NAME, { addon, node: [process.execPath] })}`;
}
