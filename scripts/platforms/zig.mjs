// zig as the C compiler and linker: it brings the C libraries of every system,
// glibc in every version.
import { delimiter, join } from "node:path";
import { python } from "./toolbox.mjs";

/** The glibc that addons for Linux are linked for. */
export const GLIBC = "2.17";

/** What `buildAddon` needs to build with it. */
export async function zig() {
  const bin = await python("ziglang", "cargo-zigbuild");
  // It finds zig through this folder's Python.
  const env = { PATH: `${bin}${delimiter}${process.env.PATH}` };
  return { zigbuild: join(bin, "cargo-zigbuild"), env };
}
