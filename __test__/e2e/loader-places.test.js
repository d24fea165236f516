// The folders that the native addon is loaded from. The working directory is never one of them, because
// it may belong to anybody.

import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { rolldown } from "rolldown";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { manifest, platformPackages } from "../../scripts/lib/packages.mjs";
import { executable } from "../fixtures/elf.js";
import { ROOT, node } from "../fixtures/node.js";

const { version } = manifest();
const built = platformPackages().find(({ manifest }) =>
  existsSync(join(ROOT, "js/native", manifest.main)),
);
const onLinux = process.platform === "linux";
const own = platformPackages().filter(({ platform }) =>
  platform.startsWith(`${process.platform}-${process.arch}`),
);

const home = mkdtempSync(join(tmpdir(), "syncguard-places-"));
afterAll(() => rmSync(home, { recursive: true, force: true }));

/** A program with the package in its node_modules, but without the native addon. */
const app = join(home, "app");
/** Bundles of the program, in a folder without node_modules above it. */
const bundles = join(home, "bundles");
/** A folder of another user, which is the program's working directory. */
const foreign = join(home, "foreign");
const cwd = join(foreign, "project", "deeper");
const marker = join(home, "executed");

const PROGRAM = `
  import { createMemoryBackend } from "syncguard/memory";
  try {
    createMemoryBackend();
    console.log("loaded");
  } catch (error) {
    console.log(error.message);
  }
`;

beforeAll(async () => {
  for (const name of ["package.json", "dist"]) {
    cpSync(join(ROOT, name), join(app, "node_modules/syncguard", name), { recursive: true });
  }
  writeFileSync(join(app, "main.mjs"), PROGRAM);
  await bundle("esm.mjs", "esm");
  await bundle("cjs.cjs", "cjs");
  // As by `bun build`: the folder is that of the machine that made the bundle.
  await bundle("inlined.mjs", "esm", { __dirname: JSON.stringify(cwd) });
  for (const folder of [cwd, join(cwd, ".."), foreign]) {
    for (const { name } of own) plant(folder, name);
  }
  writeFileSync(join(cwd, "main.mjs"), "");
});
beforeEach(() => rmSync(marker, { force: true }));

async function bundle(name, format, define = {}) {
  const build = await rolldown({
    input: join(app, "main.mjs"),
    platform: "node",
    transform: { define },
  });
  await build.write({ file: join(bundles, name), format, codeSplitting: false });
  await build.close();
}

/** A package that looks like ours, and reports when it is executed. */
function plant(folder, name) {
  const path = join(folder, "node_modules", name);
  mkdirSync(path, { recursive: true });
  writeFileSync(join(path, "package.json"), JSON.stringify({ name, main: "index.js" }));
  writeFileSync(
    join(path, "index.js"),
    `require("node:fs").writeFileSync(${JSON.stringify(marker)}, "");
    exports.version = () => ${JSON.stringify(version)};`,
  );
}

const inBundle = (name) => join(bundles, name);
const asModule = (file) => ["--import", file];

const STARTS = [
  ["the installed package", [join(app, "main.mjs")]],
  ["a bundle of ES modules", [inBundle("esm.mjs")]],
  ["a CommonJS bundle", [inBundle("cjs.cjs")]],
  ["a bundle with a folder of another machine", [inBundle("inlined.mjs")]],
  ["a bundle that a program of that folder loads", [...asModule(inBundle("esm.mjs")), "main.mjs"]],
  [
    "a bundle, with an argument that names that folder",
    ["--eval", `import(${JSON.stringify(inBundle("esm.mjs"))})`, join(cwd, "main.mjs")],
  ],
];

async function start(args) {
  const { stdout, stderr } = await node(args, { cwd });
  expect(stderr).toBe("");
  return stdout.trim();
}

describe("from where a program is started, nothing is executed", () => {
  test.each(STARTS)("%s", async (_, args) => {
    expect(await start(args)).toContain(`the package ${built.name} is not installed`);
    expect(existsSync(marker)).toBe(false);
  });

  test.skipIf(!onLinux)("with musl, neither", async () => {
    const runtime = join(home, "musl-runtime");
    writeFileSync(runtime, executable("/lib/ld-musl-x86_64.so.1"));
    const before = join(home, "before.mjs");
    writeFileSync(before, `process.execPath = ${JSON.stringify(runtime)};`);
    expect(await start(["--import", before, join(app, "main.mjs")])).toContain(
      `the package @syncguard/native-linux-${process.arch}-musl is not installed`,
    );
    expect(existsSync(marker)).toBe(false);
  });

  test("unless SYNCGUARD_ADDON names it", async () => {
    const [{ name }] = own;
    const env = { SYNCGUARD_ADDON: join("node_modules", name, "index.js") };
    const { stdout } = await node([join(app, "main.mjs")], { cwd, env });
    expect(stdout).not.toContain("not installed");
    expect(existsSync(marker)).toBe(true);
  });
});

describe("beside the bundle it is found", () => {
  beforeAll(() =>
    cpSync(join(ROOT, "js/native", built.manifest.main), join(bundles, built.manifest.main)),
  );
  afterAll(() => rmSync(join(bundles, built.manifest.main)));

  test.each(STARTS.slice(1))("%s", async (_, args) => {
    expect(await start(args)).toBe("loaded");
    expect(existsSync(marker)).toBe(false);
  });

  test("a program keeps its own Error.prepareStackTrace", async () => {
    const source = `
      const mine = () => "mine";
      Error.prepareStackTrace = mine;
      Error.stackTraceLimit = 0;
      await import(${JSON.stringify(inBundle("esm.mjs"))});
      console.log(Error.prepareStackTrace === mine, Error.stackTraceLimit);
    `;
    const { stdout } = await node(["--input-type=module", "--eval", source], { cwd });
    expect(stdout).toBe("loaded\ntrue 0\n");
  });

  test("a program that froze Error does without", async () => {
    const source = `Object.freeze(Error); require(${JSON.stringify(inBundle("cjs.cjs"))});`;
    const { stdout, stderr } = await node(["--eval", source], { cwd });
    expect({ stdout, stderr }).toEqual({ stdout: "loaded\n", stderr: "" });
  });
});

test("in node_modules above the bundle it is found", async () => {
  const folder = join(app, "out");
  cpSync(bundles, folder, { recursive: true });
  const installed = join(app, "node_modules", built.name);
  mkdirSync(installed, { recursive: true });
  const { main } = built.manifest;
  writeFileSync(join(installed, "package.json"), JSON.stringify({ name: built.name, main }));
  cpSync(join(ROOT, "js/native", main), join(installed, main));
  for (const name of ["esm.mjs", "cjs.cjs", "inlined.mjs"]) {
    expect(await start([join(folder, name)])).toBe("loaded");
  }
  expect(existsSync(marker)).toBe(false);
});
