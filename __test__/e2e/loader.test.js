// The loader's errors if the native addon cannot be loaded, and what works without it.

import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { manifest, platformPackages } from "../../scripts/lib/packages.mjs";
import { ROOT, node } from "../fixtures/node.js";

const { version } = manifest();
const built = platformPackages().find(({ manifest }) =>
  existsSync(join(ROOT, "js/native", manifest.main)),
);
const addon = join(ROOT, "js/native", built.manifest.main);
const NOT_INSTALLED = `SyncGuard's native addon is missing: the package ${built.name} is not installed. Install with optional dependencies, on the same kind of machine as the program runs on. A bundle that runs without node_modules needs the file beside it, or its path in SYNCGUARD_ADDON: see docs/bundlers.md of the package`;

const onLinux = process.platform === "linux";
const forOtherLibc = (name) =>
  name.endsWith("gnu") ? name.replace(/gnu$/, "musl") : name.replace(/musl$/, "gnu");

/** A program with the package in its node_modules. A test adds the native addon, or parts of it. */
let app;
beforeEach(() => {
  app = mkdtempSync(join(tmpdir(), "syncguard-loader-"));
  for (const name of ["package.json", "dist"]) {
    cpSync(join(ROOT, name), join(app, "node_modules/syncguard", name), { recursive: true });
  }
});
afterEach(() => rmSync(app, { recursive: true, force: true }));

function install(name, main, content) {
  const folder = join(app, "node_modules", name);
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "package.json"), JSON.stringify({ name, main }));
  writeFileSync(join(folder, main), content);
  return join(folder, main);
}

/** Opens a backend. Returns `[code, message, message of the cause, everything that is printed]`. */
async function open({ before = "", ...options } = {}) {
  const program = `${before}
    const { LockError, lock } = require("syncguard");
    const { createRedisBackend } = require("syncguard/redis");
    try {
      lock(createRedisBackend("redis://somebody:s3cret@127.0.0.1:1"), () => {}, { key: "private" });
      console.log(JSON.stringify(["loaded"]));
    } catch (error) {
      const shown = require("node:util").inspect(error, { depth: 9 });
      const code = error instanceof LockError && error.code;
      console.log(JSON.stringify([code, error.message, error.cause?.message, shown]));
    }
    process.exit();
  `;
  const { stdout, stderr } = await node(["--eval", program], { cwd: app, ...options });
  expect(stderr).toBe("");
  const [code, message, cause, shown] = JSON.parse(stdout);
  if (shown) expect(shown).not.toMatch(/s3cret|somebody|private/);
  return { code, message, cause };
}

describe("found", () => {
  test("as the package of the platform", async () => {
    const { main } = built.manifest;
    cpSync(addon, install(built.name, main, ""));
    expect(await open()).toEqual({ code: "loaded" });
  });

  test("beside the package", async () => {
    cpSync(addon, join(app, "node_modules/syncguard/dist", built.manifest.main));
    expect(await open()).toEqual({ code: "loaded" });
  });

  test("where SYNCGUARD_ADDON says, from where the program was started", async () => {
    cpSync(addon, join(app, "mine.node"));
    expect(await open({ env: { SYNCGUARD_ADDON: "mine.node" } })).toEqual({ code: "loaded" });
  });
});

describe("not found", () => {
  test("the package is not installed", async () => {
    expect(await open()).toEqual({
      code: "Internal",
      message: NOT_INSTALLED,
      cause: expect.stringContaining(`Cannot find module '${built.name}'`),
    });
  });

  test("there is none for the platform", async () => {
    const before = `Object.defineProperty(process, "platform", { value: "sunos" });
      Object.defineProperty(process, "arch", { value: "sparc" });`;
    expect(await open({ before })).toMatchObject({
      code: "Internal",
      message:
        "SyncGuard's native addon is missing: there is none for sunos-sparc. Build it from source and name the file in SYNCGUARD_ADDON",
    });
  });

  test("the file is damaged", async () => {
    install(built.name, built.manifest.main, "not an addon");
    expect(await open()).toEqual({
      code: "Internal",
      message: `SyncGuard's native addon is missing: ${built.name} is installed but could not be loaded, see the cause. Install again`,
      cause: expect.stringContaining(built.manifest.main),
    });
  });

  test.skipIf(!onLinux)("only the one for another libc is", async () => {
    install(forOtherLibc(built.name), "addon.node", "not for this libc");
    expect(await open()).toMatchObject({ code: "Internal", message: NOT_INSTALLED });
  });

  test("it is of another version", async () => {
    install(built.name, "addon.js", 'exports.version = () => "9.9.9";');
    expect(await open()).toMatchObject({
      code: "Internal",
      message: `SyncGuard ${version} found a native addon of another version (9.9.9). Install SyncGuard again, so that both have the same version`,
    });
  });

  test("it is something else", async () => {
    install(built.name, "addon.js", "");
    expect((await open()).message).toContain("a native addon of another version (unknown)");
  });

  test.each([
    ["is not there", undefined],
    ["is no addon", "not an addon"],
  ])("what SYNCGUARD_ADDON names %s", async (_, content) => {
    const file = join(app, "mine.node");
    if (content) writeFileSync(file, content);
    expect(await open({ env: { SYNCGUARD_ADDON: "mine.node" } })).toEqual({
      code: "Internal",
      message: `The file that SYNCGUARD_ADDON names cannot be loaded as SyncGuard's native addon: ${file}. Unset the variable, or name an addon of this version`,
      cause: expect.stringContaining("mine.node"),
    });
  });
});

describe("whatever needs it says the same", () => {
  const WAYS = {
    "lock()": 'require("syncguard").lock(() => {}, { key })',
    "tryLock()": 'require("syncguard").tryLock(() => {}, { key })',
    "hold()": 'require("syncguard").hold({ key })',
    "tryHold()": 'require("syncguard").tryHold({ key })',
    "lead()": 'require("syncguard").lead(() => {}, { key })',
    "lock() on a backend of one's own":
      'require("syncguard").lock({ acquire: async () => {}, release: async () => {} }, () => {}, { key })',
    "createBackend()": 'require("syncguard").createBackend("redis://127.0.0.1:1")',
    "createLock()": 'require("syncguard").createLock("postgres://127.0.0.1:1/db")',
    "createRedisBackend()": 'require("syncguard/redis").createRedisBackend()',
    "createPostgresBackend()": 'require("syncguard/postgres").createPostgresBackend()',
    "setupSchema()": 'require("syncguard/postgres").setupSchema()',
    "createFirestoreBackend()":
      'require("syncguard/firestore").createFirestoreBackend({ projectId: "p" })',
    "createSqliteBackend()": 'require("syncguard/sqlite").createSqliteBackend()',
    "createMemoryBackend()": 'require("syncguard/memory").createMemoryBackend()',
    "hashKey()": 'require("syncguard/common").hashKey(key)',
  };

  test.each(["", "redis://127.0.0.1:1"])("every function, with SYNCGUARD_URL=%s", async (url) => {
    const attempts = Object.entries(WAYS).map(
      ([name, source]) => `attempt(${JSON.stringify(name)}, async (key) => ${source})`,
    );
    const program = `
      const attempt = (name, call) => call("k").catch(({ code, message }) => [name, code, message]);
      Promise.all([${attempts}]).then((all) => console.log(JSON.stringify(all)));
    `;
    const env = { SYNCGUARD_URL: url };
    const { stdout, stderr } = await node(["--eval", program], { cwd: app, env });
    expect(stderr).toBe("");
    expect(JSON.parse(stdout)).toEqual(
      Object.keys(WAYS).map((name) => [name, "Internal", NOT_INSTALLED]),
    );
  });

  test("the command", async () => {
    const cli = join(app, "node_modules/syncguard/dist/cli.js");
    for (const url of ["", "redis://127.0.0.1:1"]) {
      const ended = await node([cli, "ls"], { cwd: app, env: { SYNCGUARD_URL: url } });
      expect(ended).toMatchObject({
        code: 69,
        stdout: "",
        stderr: `syncguard: ${NOT_INSTALLED} (Internal).\n`,
      });
    }
  });

  test("but a URL that is wrong is still what is wrong", async () => {
    const program = `require("syncguard").hold({ key: "k" }).catch(({ code, message }) => console.log(code, message));`;
    const env = { SYNCGUARD_URL: "http://somebody:s3cret@h" };
    const { stdout } = await node(["--eval", program], { cwd: app, env });
    expect(stdout).toMatch(/^InvalidArgument SYNCGUARD_URL: This URL names no backend/);
    expect(stdout).not.toMatch(/s3cret|somebody/);
  });
});

test("all of syncguard loads without it, and in syncguard/common what needs none works", async () => {
  const program = `
    for (const entry of Object.keys(require("syncguard/package.json").exports)) {
      // Its decorators are those of NestJS, which is not installed here.
      if (entry !== "./nestjs") require(entry.replace(".", "syncguard"));
    }
    const common = require("syncguard/common");
    const backend = { release: async () => ({ ok: true }), extend: async () => ({ ok: true }) };
    const result = { ok: true, lockId: "A".repeat(22), expiresAtMs: 1, fence: common.formatFence(7) };
    console.log(JSON.stringify([
      new common.LockError("AcquisitionTimeout").code,
      common.BACKEND_LIMITS.REDIS,
      common.mapRedisScriptResult(-2),
      common.mapToMutationResult("succeeded").ok,
      common.isLive(1000, 500, 0),
      common.hasFence(result),
      typeof common.decorateAcquireResult(backend, result, "k").release,
    ]));
    try { common.generateLockId(); } catch (error) { console.log(error.message); }
  `;
  const { stdout, stderr } = await node(["--eval", program], { cwd: app });
  expect(stderr).toBe("");
  const [worked, refused] = stdout.trim().split("\n");
  expect(JSON.parse(worked)).toEqual([
    ...["AcquisitionTimeout", 1000, "observable-expired", true, true, true, "function"],
  ]);
  expect(refused).toBe(NOT_INSTALLED);
});
