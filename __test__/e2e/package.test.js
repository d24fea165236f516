// The package as npm installs it: packed, installed into an empty folder beside the platform package
// that was built here, and used from ES modules, CommonJS and TypeScript with `await using`.

import { execFileSync } from "node:child_process";
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, posix } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { pack } from "../../scripts/lib/pack.mjs";
import { ROOT, node } from "../fixtures/node.js";
import { size } from "../fixtures/size.js";

const folder = mkdtempSync(join(tmpdir(), "syncguard-package-"));
const app = join(folder, "app");
let packed;
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Runs npm without the environment of the npm that may be running this test. */
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

/** Returns the files in a tarball, without their common folder. */
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

test("the tarballs contain all needed files and no others", () => {
  const { native, files } = packed;
  for (const needed of ["README.md", "LICENSE", "dist/index.js", "dist/index.d.ts"]) {
    expect(files).toContain(needed);
  }
  const strange = files.filter(
    (file) =>
      !/^(dist\/(.+\.m?js|.+\.d\.m?ts)|docs\/.+\.(md|json|svg)|examples\/.+\.(md|mjs)|types\/.+\.d\.ts|src\/.+\/schema\.sql|package\.json|[A-Z]+(\.md)?)$/.test(
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

test("links in the tarball's documents lead to files in the tarball", () => {
  const { files } = packed;
  const links = files
    .filter((file) => /^(README|docs\/.+|examples\/.+)\.md$/.test(file))
    .flatMap((file) => {
      const markdown = readFileSync(join(app, "node_modules/syncguard", file), "utf8");
      const found = [...markdown.matchAll(/\]\((?!https?:|#)([^)#]+)/g)];
      return found.map(([, link]) => posix.join(posix.dirname(file), link));
    });
  expect(links.length).toBeGreaterThan(20);
  const missing = links.filter((link) => !files.some((file) => `${file}/`.startsWith(`${link}/`)));
  expect(missing).toEqual([]);
});

test("works from ES modules", async () => {
  const result = await node(["esm.mjs"], { cwd: app });
  expect(result).toMatchObject({ code: 0, stderr: "" });
  expect(result.stdout).toBe("esm 000000000000001 true InvalidArgument\n");
});

test("works from CommonJS", async () => {
  const result = await node(["cjs.cjs"], { cwd: app });
  expect(result).toMatchObject({ code: 0, stderr: "" });
  expect(result.stdout).toBe("cjs 000000000000001 true InvalidArgument\n");
});

test("works from TypeScript, with await using", async () => {
  const compiled = await node([join(ROOT, "node_modules/typescript/bin/tsc"), "-p", "."], {
    cwd: app,
  });
  expect(compiled).toMatchObject({ code: 0, stdout: "", stderr: "" });
  const result = await node(["out/typed.js"], { cwd: app });
  expect(result).toMatchObject({ code: 0, stderr: "" });
  expect(result.stdout).toBe("typed 000000000000001 null 000000000000002 InvalidArgument\n");
}, 120_000);

describe("the contract suite for people who write a backend", () => {
  const cwd = join(app, "own-backend");
  const behaviours = 43;
  // As if nobody ran this test: what one runner sets must not be seen by the other.
  const env = { NODE_ENV: "test", VITEST: undefined, VITEST_MODE: undefined, TEST: undefined };
  const jest = join(ROOT, "node_modules/jest/bin/jest.js");
  const vitest = join(ROOT, "node_modules/vitest/vitest.mjs");

  beforeAll(() => {
    // What the program would have installed.
    mkdirSync(join(app, "node_modules/@jest"), { recursive: true });
    for (const name of ["vitest", "@jest/globals"]) {
      symlinkSync(join(ROOT, "node_modules", name), join(app, "node_modules", name), "junction");
    }
  });

  test.concurrent.each(size(["node.mjs"], ["node.mjs", "node.cjs"]))(
    "node:test, %s",
    async (file) => {
      const tap = ["--test", "--test-reporter=tap", file];
      // Without it, Node.js believes that it is a part of another test run.
      const { code, stdout, stderr } = await node(tap, {
        cwd,
        env: { ...env, NODE_TEST_CONTEXT: undefined },
      });
      expect(code, stdout + stderr).toBe(0);
      expect(stdout).toMatch(new RegExp(`^# tests ${behaviours}$`, "m"));
      expect(stdout).toMatch(new RegExp(`^# pass ${behaviours}$`, "m"));
    },
  );

  test.concurrent.each([
    ["vitest", [vitest, "run", "--reporter=json", "--dir", ".", "vitest.spec.mjs"]],
    ["Jest, CommonJS", [jest, "--json", "jest.spec.cjs"]],
    ...size(
      [],
      [["Jest, ES modules", ["--experimental-vm-modules", jest, "--json", "jest.spec.mjs"]]],
    ),
  ])("%s", async (_, args) => {
    const { code, stdout, stderr } = await node(args, { cwd, env });
    expect(code, stdout + stderr).toBe(0);
    const { numPassedTests, numTotalTests } = JSON.parse(stdout);
    expect([numPassedTests, numTotalTests]).toEqual([behaviours, behaviours]);
  });
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

describe("with OpenTelemetry, an optional peer", () => {
  const from = join(ROOT, "node_modules/@opentelemetry");
  const peers = join(app, "node_modules/@opentelemetry");

  /** The program's own copy, which may be changed, and what builds upon it. */
  beforeEach(() => {
    for (const part of ["package.json", "build/src"]) {
      cpSync(join(from, "api", part), join(peers, "api", part), { recursive: true });
    }
    for (const name of readdirSync(from).filter((name) => name !== "api")) {
      symlinkSync(join(from, name), join(peers, name), "junction");
    }
  });
  afterEach(() => rmSync(peers, { recursive: true, force: true }));

  function change(file, text, replacement) {
    const path = join(peers, "api/build/src", file);
    const before = readFileSync(path, "utf8");
    expect(before).toContain(text);
    writeFileSync(path, before.replace(text, replacement));
  }

  /** What the program prints, which gets `instrument` as `import` and `require` have it. */
  async function run(source) {
    const program = `
      import { createRequire } from "node:module";
      import * as imported from "syncguard/opentelemetry";
      const required = createRequire(${JSON.stringify(join(app, "program.js"))})("syncguard/opentelemetry");
      ${source}
    `;
    const flags = ["--preserve-symlinks", "--input-type=module", "--eval"];
    const ended = await node([...flags, program], { cwd: app });
    expect(ended).toMatchObject({ code: 0, stderr: "" });
    return ended.stdout.trim().split("\n");
  }

  const refusals = () =>
    run(`
      const { LockError } = await import("syncguard");
      for (const { instrument } of [imported, required]) {
        try {
          instrument();
        } catch (error) {
          console.log(error instanceof LockError && error.code, error.message);
        }
      }
    `);

  const refusal = (why) =>
    `InvalidArgument instrument() needs @opentelemetry/api 1.9 or a later 1.x, ${why}. Install it beside syncguard: npm install @opentelemetry/api@1`;

  test("without it, instrument() says what to install", async () => {
    rmSync(peers, { recursive: true });
    const expected = refusal("which could not be loaded");
    expect(await refusals()).toEqual([expected, expected]);
  });

  test("with a version that is too old, it says so too", async () => {
    // As in 1.8, which had no gauges.
    change("metrics/NoopMeter.js", "createGauge(", "createGaugeLater(");
    const expected = refusal("but found another version");
    expect(await refusals()).toEqual([expected, expected]);
  });

  test("spans reach the SDK that the program registered", async () => {
    // What a copy of this version registers, a later one is not let in to: there must be only one.
    change("version.js", "'1.9", "'1.8");
    const seen = await run(`
      const { trace } = await import("@opentelemetry/api");
      const sdk = await import("@opentelemetry/sdk-trace-base");
      const { lock } = await import("syncguard");
      const { createMemoryBackend } = await import("syncguard/memory");
      const exporter = new sdk.InMemorySpanExporter();
      const spanProcessors = [new sdk.SimpleSpanProcessor(exporter)];
      trace.setGlobalTracerProvider(new sdk.BasicTracerProvider({ spanProcessors }));
      for (const { instrument } of [imported, required]) {
        const stop = instrument();
        await lock(createMemoryBackend(), () => {}, { key: "k", name: "report" });
        stop();
        console.log(exporter.getFinishedSpans().map(({ name }) => name).join());
        exporter.reset();
      }
    `);
    expect(seen).toEqual([1, 2].map(() => "syncguard.acquire,syncguard.hold"));
  });
});
