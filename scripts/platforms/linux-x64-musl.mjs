// Linux x64 with musl (Alpine). No registry has a Node.js for musl that runs here, so a C program loads
// the addon, and the core's own tests run.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { Failure, output } from "../lib/run.mjs";
import { buildAddon, buildTests } from "./rust.mjs";
import { need } from "./toolbox.mjs";
import { coreTests, freshFolder } from "./trial.mjs";
import { zig } from "./zig.mjs";

const NAME = "linux-x64-musl";
const TARGET = "x86_64-unknown-linux-musl";

async function options() {
  const { zigbuild, env } = await zig();
  // Node.js loads the addon, so both must share one libc.
  return { target: TARGET, zigbuild, env: { ...env, RUSTFLAGS: "-C target-feature=-crt-static" } };
}

export async function build() {
  return buildAddon(NAME, await options());
}

const LOADER = `
#include <dlfcn.h>
#include <stdio.h>
int main(int count, char **arguments) {
  void *addon = dlopen(arguments[1], RTLD_NOW);
  if (!addon) return fprintf(stderr, "%s\\n", dlerror()), 1;
  if (!dlsym(addon, "napi_register_module_v1")) return fprintf(stderr, "no entry point\\n"), 1;
  return 0;
}
`;

export async function attempt(addon) {
  need("musl-gcc", "objdump");
  const needed = output("objdump", ["-p", addon]).match(/(?<=NEEDED\s+)\S+/g);
  const foreign = needed.filter((library) => !/^libc(\.musl-.*)?\.so/.test(library));
  if (foreign.length) throw new Failure(`It needs more than musl's libc: ${foreign.join(", ")}.`);
  const folder = freshFolder(NAME, "loader");
  const [source, loader] = [join(folder, "loader.c"), join(folder, "loader")];
  writeFileSync(source, LOADER);
  output("musl-gcc", ["-o", loader, source]);
  output(loader, [addon]);
  const tests = await coreTests(NAME, [await buildTests(NAME, await options())]);
  return `needs ${needed.join(", ")}; loaded by a program of musl, which finds its entry point; ${tests}`;
}
