// Uses zig as the C compiler and linker. It contains the C libraries of every system, and every version
// of glibc.
import { delimiter, join } from "node:path";
import { python } from "./toolbox.mjs";

/** The glibc version that addons for Linux are linked with. */
export const GLIBC = "2.17";

/** Returns the options with which `buildAddon` uses zig. */
export async function zig() {
  const bin = await python("ziglang", "cargo-zigbuild");
  // cargo-zigbuild finds zig through the Python in this folder.
  const env = { PATH: `${bin}${delimiter}${process.env.PATH}` };
  return { zigbuild: join(bin, "cargo-zigbuild"), env };
}
