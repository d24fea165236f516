// The package as npm delivers it: packed, installed into an empty folder beside the platform package
// that was built here, used from ES modules, from CommonJS and from TypeScript with `await using`.

import { execFileSync } from "node:child_process";
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ROOT, node } from "../fixtures/node.js";

const folder = mkdtempSync(join(tmpdir(), "syncguard-package-"));
const app = join(folder, "app");
let packed;
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** npm, with nothing of the npm that may be running this test in its environment. */
function npm(args, cwd) {
  const env = Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !name.toLowerCase().startsWith("npm_")),
  );
  return execFileSync("npm", args, {
    cwd,
    env,
    encoding: "utf8",
    shell: process.platform === "win32",
  });
}

/** Packs a folder; returns what npm says about the tarball, and its path. */
function pack(from) {
  const [info] = JSON.parse(
    npm(["pack", "--json", "--ignore-scripts", "--pack-destination", folder], from),
  );
  return { path: join(folder, info.filename), files: info.files.map((file) => file.path) };
}

beforeAll(() => {
  const addon = readdirSync(join(ROOT, "js/native")).find((name) => name.endsWith(".node"));
  const platform = addon.split(".")[1]; // syncguard.<platform>.node
  const native = join(folder, "native");
  cpSync(join(ROOT, "npm", platform), native, { recursive: true });
  cpSync(join(ROOT, "js/native", addon), join(native, addon));
  packed = { main: pack(ROOT), native: pack(native), addon, platform };

  mkdirSync(app);
  cpSync(join(ROOT, "__test__/fixtures/app"), app, { recursive: true });
  writeFileSync(join(app, "package.json"), JSON.stringify({ private: true, type: "module" }));
  npm(
    ["install", "--offline", "--no-audit", "--no-fund", packed.main.path, packed.native.path],
    app,
  );
  // Only for the compiler: what a TypeScript project has anyway.
  cpSync(join(ROOT, "node_modules/@types/node"), join(app, "node_modules/@types/node"), {
    recursive: true,
  });
  cpSync(join(ROOT, "node_modules/undici-types"), join(app, "node_modules/undici-types"), {
    recursive: true,
  });
}, 300_000);

test("the tarballs hold what is needed and nothing else", () => {
  const { main, native, addon } = packed;
  expect(main.files).toContain("README.md");
  expect(main.files).toContain("LICENSE");
  expect(main.files).toContain("index.d.ts");
  expect(main.files).toContain("js/index.js");
  expect(main.files).toContain("js/native/addon.js");
  const strange = main.files.filter(
    (file) =>
      !/^(js\/.+\.(js|d\.ts)|types\/.+\.d\.ts|index\.d\.ts|src\/.+\/schema\.sql|package\.json|[A-Z]+(\.md)?)$/.test(
        file,
      ),
  );
  expect(strange).toEqual([]);
  expect(native.files).toContain(addon);
});

test("every entry point of the package is in the tarball", () => {
  const { exports } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
  for (const target of Object.values(exports)) {
    for (const file of typeof target === "string" ? [target] : Object.values(target)) {
      expect(packed.main.files).toContain(file.replace("./", ""));
    }
  }
});

test("from ES modules", async () => {
  const result = await node(["esm.mjs"], { cwd: app });
  expect(result).toMatchObject({ code: 0, stderr: "" });
  expect(result.stdout).toBe("esm 000000000000001 true InvalidArgument\n");
});

test("from CommonJS", async () => {
  const result = await node(["cjs.cjs"], { cwd: app });
  expect(result).toMatchObject({ code: 0, stderr: "" });
  expect(result.stdout).toBe("cjs 000000000000001 true InvalidArgument\n");
});

test("from TypeScript, with await using", async () => {
  const compiled = await node([join(ROOT, "node_modules/typescript/bin/tsc"), "-p", "."], {
    cwd: app,
  });
  expect(compiled).toMatchObject({ code: 0, stdout: "", stderr: "" });
  const result = await node(["out/typed.js"], { cwd: app });
  expect(result).toMatchObject({ code: 0, stderr: "" });
  expect(result.stdout).toBe("typed 000000000000001 null 000000000000002 InvalidArgument\n");
}, 120_000);

test("the addon comes from the platform package", async () => {
  const source = `
    await import("syncguard/memory");
    console.log(process.report.getReport().sharedObjects.filter((name) => name.endsWith(".node")).join());
  `;
  const result = await node(["--input-type=module", "--eval", source], { cwd: app });
  expect(result.stdout.trim()).toBe(
    join(app, "node_modules", `syncguard-${packed.platform}`, packed.addon),
  );
});
