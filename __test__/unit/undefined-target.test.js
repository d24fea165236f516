// An environment variable that is not set, passed as the target: a lock on the wrong server protects
// nothing, so it is refused in every environment.

import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { createBackend, createLock } from "../../js/index.js";
import * as firestore from "../../js/firestore.js";
import * as memory from "../../js/memory.js";
import * as postgres from "../../js/postgres.js";
import * as redis from "../../js/redis.js";
import * as sqlite from "../../js/sqlite.js";

const KINDS = {
  redis: [redis.createRedisBackend, redis.createLock],
  postgres: [postgres.createPostgresBackend, postgres.createLock],
  firestore: [firestore.createFirestoreBackend, firestore.createLock],
  sqlite: [sqlite.createSqliteBackend, sqlite.createLock],
  "a URL": [createBackend, createLock],
};
const CREATORS = Object.entries(KINDS).flatMap(([kind, creators]) =>
  creators.map((create) => [`${create.name} of ${kind}`, create]),
);

const REFUSED = expect.objectContaining({
  name: "LockError",
  code: "InvalidArgument",
  message: expect.stringMatching(/Check the environment variable that it comes from/),
});

beforeEach(() => {
  // With this variable there would be a server to fall back to.
  vi.stubEnv("GOOGLE_CLOUD_PROJECT", "some-project");
  vi.stubEnv("REDIS_URL", "redis://127.0.0.1:1");
  vi.stubEnv("SYNCGUARD_URL", "memory:");
});
afterEach(() => vi.unstubAllEnvs());

describe.each(["production", "development", ""])("NODE_ENV=%s", (environment) => {
  beforeEach(() => vi.stubEnv("NODE_ENV", environment));

  test.each(CREATORS)("%s refuses undefined and null", (_, create) => {
    for (const target of [undefined, null]) {
      for (const args of [[target], [target, undefined], [target, { operationTimeoutMs: 1000 }]]) {
        expect(() => create(...args)).toThrow(REFUSED);
      }
    }
  });

  test("setupSchema() refuses them as well", async () => {
    await expect(postgres.setupSchema(undefined)).rejects.toThrow(REFUSED);
    await expect(postgres.setupSchema(null, { tableName: "t" })).rejects.toThrow(REFUSED);
  });
});

test.each(CREATORS)("%s without arguments uses the defaults", async (_, create) => {
  await create().close();
});

test.each(CREATORS.filter(([name]) => !name.endsWith("URL")))(
  "%s with nothing but options uses the defaults",
  async (_, create) => {
    await create({ operationTimeoutMs: 1000 }).close();
    await create({}).close();
  },
);

describe("the message names the store that would have been used", () => {
  test.each([
    [redis.createRedisBackend, /^The Redis target is undefined\. .*REDIS_URL.*127\.0\.0\.1:6379/],
    [postgres.createPostgresBackend, /^The PostgreSQL target is undefined\. .*PGHOST/],
    [
      firestore.createFirestoreBackend,
      /^The Firestore target is undefined\. .*GOOGLE_CLOUD_PROJECT/,
    ],
    [sqlite.createSqliteBackend, /^The SQLite target is undefined\. .*file/],
    [createBackend, /^The URL of the backend is undefined\. .*SYNCGUARD_URL/],
  ])("%o", (create, message) => {
    expect(() => create(undefined)).toThrow(message);
  });
});

describe("an unset variable in the options", () => {
  test.each([
    ["redis", redis.createRedisBackend, { url: undefined, keyPrefix: "app" }],
    ["redis", redis.createRedisBackend, { host: undefined, port: undefined }],
    ["redis", redis.createRedisBackend, { host: undefined, port: 6379 }],
    ["redis", redis.createRedisBackend, { port: undefined }],
    ["postgres", postgres.createPostgresBackend, { connectionString: undefined, poolSize: 2 }],
    ["postgres", postgres.createPostgresBackend, { host: undefined, database: "app" }],
    ["firestore", firestore.createFirestoreBackend, { projectId: undefined }],
    ["sqlite", sqlite.createSqliteBackend, { path: undefined }],
    ["sqlite", sqlite.createSqliteBackend, { path: null, durability: "normal" }],
  ])("is refused if it alone names the store: %s, %#", (_, create, target) => {
    expect(() => create(target)).toThrow(REFUSED);
  });

  test("counts as not given if another option names the store", async () => {
    await redis.createRedisBackend({ url: undefined, host: "127.0.0.1" }).close();
    await redis.createRedisBackend({ host: "127.0.0.1", port: undefined }).close();
    await redis.createRedisBackend({ port: 6379 }).close();
    await postgres.createPostgresBackend({ url: undefined, host: "127.0.0.1" }).close();
    await firestore.createFirestoreBackend({ projectId: "p", emulatorHost: undefined }).close();
  });
});

test("memory has no target, so undefined counts as no options", async () => {
  for (const create of [memory.createMemoryBackend, memory.createLock]) {
    await create(undefined).close();
    await create(undefined, undefined).close();
  }
});
