// Mocks of clients. A unit test with a mock must never connect to a real database.

import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import pg from "pg";
import { createFirestoreBackend } from "../../js/firestore.js";
import { createPostgresBackend, setupSchema } from "../../js/postgres.js";
import { createRedisBackend } from "../../js/redis.js";
import { readTarget as readRedis } from "../../js/targets/redis/target.js";
import { rejection } from "./support.js";

// Variables that a test's environment may have. With them, an empty options object names a server.
const ENVIRONMENT = {
  GOOGLE_CLOUD_PROJECT: "production",
  PGHOST: "db.production",
  PGUSER: "app",
  REDIS_URL: "redis://cache.production",
};
beforeEach(() => {
  for (const [name, value] of Object.entries(ENVIRONMENT)) vi.stubEnv(name, value);
});
afterEach(() => vi.unstubAllEnvs());

/** A mock as libraries create them: every property is a function. */
const everything = (own = {}) =>
  new Proxy(own, { get: (target, name) => (Object.hasOwn(target, name) ? target[name] : vi.fn()) });

/** A mock with methods on its class and no properties of its own. */
class Opaque {
  collection() {}
  get() {}
}

describe.each([
  [
    "Firestore",
    createFirestoreBackend,
    /pass \{ projectId, emulatorHost \}.*or a firestore: URL/,
    {
      "all that a backend would call": { collection: vi.fn(), runTransaction: vi.fn() },
      "only collection()": { collection: () => ({ doc: vi.fn() }) },
      "only runTransaction()": { runTransaction: vi.fn() },
      "only doc()": { doc: vi.fn() },
      "settings that are a function": { collection: vi.fn(), _settings: vi.fn() },
      "settings that are null": { collection: vi.fn(), runTransaction: vi.fn(), _settings: null },
      "settings without any": { collection: vi.fn(), runTransaction: vi.fn(), _settings: {} },
      "a class": new Opaque(),
      "every property": everything(),
    },
  ],
  [
    "PostgreSQL",
    createPostgresBackend,
    /pass a URL or an options object/,
    {
      "a function": vi.fn(),
      "a function with options": Object.assign(vi.fn(), { options: {} }),
      "a function with null for options": Object.assign(vi.fn(), { options: null }),
      "a pool": { query: vi.fn(), connect: vi.fn(), end: vi.fn() },
      "a pool with a class": { query: vi.fn(), Client: class {}, options: {} },
      "a pool with no class": { query: vi.fn(), Client: () => {}, options: {} },
      "a client": { query: vi.fn(), connectionParameters: {} },
      "a client with null": { query: vi.fn(), connectionParameters: null },
      "only connect()": { connect: vi.fn() },
      "a class": new Opaque(),
      "every property": everything(),
    },
  ],
  [
    "Redis",
    createRedisBackend,
    /pass connection options/,
    {
      "node-redis": { eval: vi.fn(), sendCommand: vi.fn(), isOpen: true },
      "node-redis with options": {
        ...{ eval: vi.fn(), sendCommand: vi.fn(), isOpen: true },
        options: {},
      },
      "node-redis with undefined options": {
        ...{ eval: vi.fn(), sendCommand: vi.fn(), isOpen: true },
        options: undefined,
      },
      "no eval()": { get: vi.fn(), set: vi.fn(), on: vi.fn() },
      "a class": new Opaque(),
    },
  ],
])("%s", (kind, create, wayOut, mocks) => {
  test.each(Object.entries(mocks))(
    "%s is refused, and the error says what to use instead",
    (_, mock) => {
      for (const options of [undefined, {}]) {
        let error;
        try {
          create(mock, options);
        } catch (thrown) {
          error = thrown;
        }
        expect(error).toMatchObject({ name: "LockError", code: "InvalidArgument" });
        expect(error.message).toMatch(wayOut);
      }
    },
  );
});

test("setupSchema refuses a mock too", async () => {
  const error = await rejection(setupSchema({ query: vi.fn() }));
  expect(error).toMatchObject({ code: "InvalidArgument" });
  expect(error.message).toContain("as if it were a mock");
});

test("a pool whose connection string is malformed is refused, without showing it", () => {
  const pool = new pg.Pool({ connectionString: "postgres://u:secret@[h/d" });
  let error;
  try {
    createPostgresBackend(pool);
  } catch (thrown) {
    error = thrown;
  }
  expect(error).toMatchObject({ name: "LockError", code: "InvalidArgument" });
  expect(`${error.message} ${error.cause}`).not.toContain("secret");
});

describe("a mock of Redis that has eval() is used through it", () => {
  const ioredis = { eval: vi.fn(), defineCommand: vi.fn(), status: "ready" };
  test.each(
    Object.entries({
      "only eval()": { eval: vi.fn() },
      ioredis,
      "ioredis with options": { ...ioredis, options: { host: "cache.production", port: 6379 } },
      "a cluster of ioredis": { ...ioredis, isCluster: true, startupNodes: [{ host: "h" }] },
      "every property": everything(),
    }),
  )("%s", (_, mock) => {
    const { client } = readRedis(mock, undefined);
    expect(client.kind).toBe("eval");
    expect(client.client).toBe(mock);
    expect(() => readRedis(mock, { transport: "native" })).toThrow(/transport: "native" needs/);
  });

  test("a mock of node-redis is used only on request", () => {
    const mock = { eval: vi.fn(), sendCommand: vi.fn(), isOpen: true };
    expect(readRedis(mock, { transport: "client" }).client.client).toBe(mock);
  });
});
