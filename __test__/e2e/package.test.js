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
import { join, posix } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { pack } from "../../scripts/lib/pack.mjs";
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

/** The files in a tarball, without the folder that all of them have. */
function filesIn(tarball) {
  const listed = execFileSync("tar", ["-tzf", tarball], { encoding: "utf8" });
  return listed
    .trim()
    .split("\n")
    .map((file) => file.replace("package/", ""));
}

beforeAll(async () => {
  const [native, main] = await pack(folder);
  packed = { main, native, files: filesIn(main.path) };

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
  const { native, files } = packed;
  for (const needed of ["README.md", "LICENSE", "dist/index.js", "dist/index.d.ts"]) {
    expect(files).toContain(needed);
  }
  const strange = files.filter(
    (file) =>
      !/^(dist\/(.+\.m?js|.+\.d\.m?ts)|docs\/.+\.(md|json|svg)|src\/.+\/schema\.sql|package\.json|[A-Z]+(\.md)?)$/.test(
        file,
      ),
  );
  expect(strange).toEqual([]);
  expect(filesIn(native.path).sort()).toEqual(
    ["README.md", "package.json", native.manifest.main].sort(),
  );
});

test("each platform is an optional dependency of the same version", () => {
  const { optionalDependencies, version, devDependencies } = packed.main.manifest;
  const platforms = readdirSync(join(ROOT, "npm"));
  expect(Object.keys(optionalDependencies)).toHaveLength(platforms.length);
  expect(optionalDependencies).toMatchObject({ [packed.native.name]: version });
  expect(devDependencies).toBeUndefined();
});

test("every entry point of the package is in the tarball", () => {
  const { exports } = packed.main.manifest;
  const targets = Object.values(exports).flatMap((entry) =>
    typeof entry === "string" ? [entry] : Object.values(entry).flatMap(Object.values),
  );
  expect(targets.length).toBeGreaterThan(4 * 6);
  for (const file of targets) expect(packed.files).toContain(file.replace("./", ""));
});

test("what the documents in the tarball link to is in the tarball", () => {
  const { files } = packed;
  const links = files
    .filter((file) => /^(README|docs\/.+)\.md$/.test(file))
    .flatMap((file) => {
      const markdown = readFileSync(join(app, "node_modules/syncguard", file), "utf8");
      const found = [...markdown.matchAll(/\]\((?!https?:|#)([^)#]+)/g)];
      return found.map(([, link]) => posix.join(posix.dirname(file), link));
    });
  expect(links.length).toBeGreaterThan(20);
  const missing = links.filter((link) => !files.some((file) => `${file}/`.startsWith(`${link}/`)));
  expect(missing).toEqual([]);
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
    const { createMemoryBackend } = await import("syncguard/memory");
    createMemoryBackend();
    console.log(process.report.getReport().sharedObjects.filter((name) => name.endsWith(".node")).join());
  `;
  const result = await node(["--input-type=module", "--eval", source], { cwd: app });
  expect(result.stdout.trim()).toBe(
    join(app, "node_modules", packed.native.name, packed.native.manifest.main),
  );
});
