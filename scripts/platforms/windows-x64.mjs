// Windows x64, built with MinGW and tested under wine.
import { copyFileSync, existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { output } from "../lib/run.mjs";
import { buildAddon, buildTests } from "./rust.mjs";
import { home, need, nodeFor } from "./toolbox.mjs";
import { coreTests, smoke } from "./trial.mjs";
import { suite } from "./windows-suite.mjs";

const NAME = "windows-x64";
const MINGW = "x86_64-w64-mingw32";
const folder = join(home, NAME);

function options() {
  need(`${MINGW}-gcc`, `${MINGW}-dlltool`);
  const env = {
    CC_x86_64_pc_windows_gnu: `${MINGW}-gcc`,
    AR_x86_64_pc_windows_gnu: `${MINGW}-ar`,
    CARGO_TARGET_X86_64_PC_WINDOWS_GNU_LINKER: `${MINGW}-gcc`,
    LIBNODE_PATH: emptyImportLibrary(),
  };
  return { target: "x86_64-pc-windows-gnu", env };
}

export const build = () => buildAddon(NAME, options());

/** The build asks for Node.js's import library, but uses nothing from it. */
function emptyImportLibrary() {
  const path = join(folder, "libnode");
  mkdirSync(path, { recursive: true });
  const [definition, library] = [join(path, "node.def"), join(path, "libnode.dll.a")];
  writeFileSync(definition, "LIBRARY node.exe\nEXPORTS\n");
  output(`${MINGW}-dlltool`, ["-d", definition, "-l", library]);
  copyFileSync(library, join(path, "libnode.dll"));
  return path;
}

export async function attempt(addon) {
  need("wine", `${MINGW}-gcc`);
  const wine = await startWine();
  try {
    // wine maps access rights to Unix modes, so they can be opened to all only from outside.
    const seen = await smoke(NAME, { addon, ...wine, opensLater: true });
    const contract = await suite(join(folder, "suite"), { addon, ...wine });
    const tests = ["wine", await buildTests(NAME, options())];
    return [seen, contract, await coreTests(NAME, tests, wine.env)].join("; ");
  } finally {
    output("wineserver", ["-k"], { env: { ...process.env, ...wine.env } });
  }
}

/** Returns the command that starts Node.js for Windows on this system. */
async function startWine() {
  const program = await nodeFor("win-x64");
  const prefix = join(folder, "wine");
  const env = {
    WINEPREFIX: prefix,
    WINEARCH: "win64",
    WINEDEBUG: "-all",
    // Disable .NET and the browser, because wine would offer to download them.
    WINEDLLOVERRIDES: "mscoree,mshtml=",
    NODE_SKIP_PLATFORM_CHECK: "1",
    NODE_OPTIONS: "",
  };
  const path = (file) => `Z:${file.replaceAll("/", "\\")}`;
  output("wine", ["wineboot", "--init"], { env: { ...process.env, ...env }, stdio: "ignore" });
  standInForRandom(join(prefix, "drive_c", "windows", "system32"));
  return { node: ["wine", program], inside: [path(program)], env, path };
}

/** Builds a DLL that Debian's wine lacks. Rust's standard library gets random numbers from it. */
function standInForRandom(system) {
  const library = join(system, "bcryptprimitives.dll");
  if (existsSync(library)) return;
  const source = join(folder, "bcryptprimitives.c");
  writeFileSync(
    source,
    `#include <windows.h>
BOOLEAN NTAPI SystemFunction036(PVOID, ULONG);
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T length) {
  return SystemFunction036(data, length);
}
`,
  );
  output(`${MINGW}-gcc`, ["-shared", "-o", library, source, "-ladvapi32"]);
}
