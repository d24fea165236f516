// Linux arm64, under qemu.
import { neededGlibc } from "./glibc.mjs";
import { buildAddon } from "./rust.mjs";
import { need, nodeFor } from "./toolbox.mjs";
import { smoke } from "./trial.mjs";
import { GLIBC, zig } from "./zig.mjs";

const NAME = "linux-arm64";

export async function build() {
  return buildAddon(NAME, { target: "aarch64-unknown-linux-gnu", glibc: GLIBC, ...(await zig()) });
}

export async function attempt(addon) {
  const libc = "/usr/aarch64-linux-gnu";
  need("qemu-aarch64", `${libc}/lib/libc.so.6`, `${libc}/lib/libstdc++.so.6`);
  const node = ["qemu-aarch64", "-L", libc, await nodeFor("linux-arm64")];
  return `needs glibc ${neededGlibc(addon)}; ${await smoke(NAME, { addon, node })}`;
}
