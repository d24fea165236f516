// An environment variable that is not set, passed as the target.

import { afterEach, beforeEach, expect, test, vi } from "vitest";

const KINDS = ["redis", "postgres", "firestore", "sqlite"];
const CREATE = {
  redis: "createRedisBackend",
  postgres: "createPostgresBackend",
  firestore: "createFirestoreBackend",
  sqlite: "createSqliteBackend",
};

let warn;
beforeEach(() => {
  vi.resetModules(); // it is said once
  warn = vi.spyOn(console, "warn").mockImplementation(() => {});
  vi.stubEnv("GOOGLE_CLOUD_PROJECT", "some-project");
});
afterEach(() => {
  vi.unstubAllEnvs();
  vi.restoreAllMocks();
});

async function creators(kind) {
  const module = await import(`../../js/${kind}.js`);
  return [module[CREATE[kind]], module.createLock];
}

test.each(KINDS)("of a %s backend is noted once", async (kind) => {
  for (const create of await creators(kind)) {
    await create(undefined).close();
    await create(undefined, {}).close();
  }
  expect(warn.mock.calls).toEqual([
    [expect.stringMatching(/^\[SyncGuard\] The target .* not set/)],
  ]);
});

test.each(KINDS)("of a %s backend by createLock() alone is noted too", async (kind) => {
  const [, createLock] = await creators(kind);
  await createLock(undefined).close();
  expect(warn).toHaveBeenCalledTimes(1);
});

test.each(KINDS)("no target, or only options, for %s is meant so", async (kind) => {
  for (const create of await creators(kind)) {
    await create().close();
    await create({ operationTimeoutMs: 1000 }).close();
  }
  expect(warn).not.toHaveBeenCalled();
});

test("nothing is noted in production", async () => {
  vi.stubEnv("NODE_ENV", "production");
  for (const kind of KINDS) {
    for (const create of await creators(kind)) await create(undefined).close();
  }
  expect(warn).not.toHaveBeenCalled();
});

test("setupSchema() reaches for a database as well", async () => {
  const { setupSchema } = await import("../../js/postgres.js");
  // Nobody listens there. Not a Unix socket: Windows has none.
  vi.stubEnv("PGHOST", "127.0.0.1");
  vi.stubEnv("PGPORT", "1");
  await expect(setupSchema(undefined)).rejects.toMatchObject({ code: "ServiceUnavailable" });
  expect(warn).toHaveBeenCalledTimes(1);
});

test("by URL it is refused", async () => {
  const { createBackend, createLock } = await import("../../js/index.js");
  for (const create of [createBackend, createLock]) {
    expect(() => create(undefined)).toThrow(expect.objectContaining({ code: "InvalidArgument" }));
  }
});
