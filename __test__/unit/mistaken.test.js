// Values that people pass in place of a backend. The message recognises the value, names the function that takes
// it, and does not show the value.

import { Firestore } from "@google-cloud/firestore";
import { Redis as Upstash } from "@upstash/redis";
import Redis from "ioredis";
import pg from "pg";
import postgres from "postgres";
import { createClient, createCluster } from "redis";
import { afterAll, describe, expect, test, vi } from "vitest";
import * as syncguard from "../../js/index.js";
import { createFirestoreBackend } from "../../js/firestore.js";
import { createLock, createMemoryBackend } from "../../js/memory.js";
import { createPostgresBackend } from "../../js/postgres.js";
import * as redis from "../../js/redis.js";
import { createSqliteBackend } from "../../js/sqlite.js";

const { acquireHandle, createAutoLock, createBackend, diagnose, forceRelease, getById, getByKey } =
  syncguard;
const { hold, lead, listLocks, lock, owns, tryHold, tryLock, withTelemetry } = syncguard;

const SECRET = "s3cret";
const URL_OF_REDIS = `redis://somebody:${SECRET}@cache.internal:6379/`;
const sql = postgres(`postgres://somebody:${SECRET}@db.internal/app`);
const backend = createMemoryBackend();
afterAll(() => backend.close({ timeoutMs: 0 }));

/** Has the methods of a database of better-sqlite3 and node:sqlite. */
class Database {
  prepare() {}
  exec() {}
}

/** Each value with its name, and with the function that the message names. */
const VALUES = [
  ["a URL", URL_OF_REDIS, "a URL", "createBackend(url)"],
  ["a URL object", new URL(URL_OF_REDIS), "a URL", "createBackend(url)"],
  ["another URL", "postgres://h/d", "a URL", "createBackend(url)"],
  ["a Unix socket", "unix:/run/redis.sock", "a URL", "createRedisBackend(url)"],
  ["a path", "/var/lib/locks.db", "a string", "createSqliteBackend(path)"],
  [
    "ioredis",
    new Redis({ lazyConnect: true, password: SECRET }),
    "an ioredis client",
    "createRedisBackend(client)",
  ],
  [
    "an ioredis cluster",
    new Redis.Cluster([{ host: "h" }], { lazyConnect: true }),
    "an ioredis client",
    "createRedisBackend(client)",
  ],
  [
    "node-redis",
    createClient({ url: URL_OF_REDIS }),
    "a node-redis client",
    "createRedisBackend(client)",
  ],
  [
    "a node-redis cluster",
    createCluster({ rootNodes: [{ url: URL_OF_REDIS }] }),
    "a node-redis client",
    "createRedisBackend(client)",
  ],
  [
    "Upstash",
    new Upstash({ url: "https://h.invalid", token: SECRET }),
    "a Redis client",
    "createRedisBackend(client)",
  ],
  ["a pg Pool", new pg.Pool({ password: SECRET }), "a Pool of pg", "createPostgresBackend(client)"],
  [
    "a pg Client",
    new pg.Client({ password: SECRET }),
    "a Client of pg",
    "createPostgresBackend(client)",
  ],
  ["postgres.js", sql, "the sql function of postgres.js", "createPostgresBackend(client)"],
  [
    "Firestore",
    new Firestore({ projectId: "p" }),
    "a Firestore instance",
    "createFirestoreBackend(db)",
  ],
  ["a SQLite database", new Database(), "a SQLite database", "createSqliteBackend(path)"],
  [
    "a lock function",
    createLock(),
    "the function that createLock() returned",
    "tryLock(fn, config)",
  ],
  ["a Promise", Promise.resolve(backend), "a Promise", "await it"],
  ["a class", Redis, "a class", "create…Backend()"],
  [
    "a function that makes backends",
    redis.createRedisBackend,
    "the function createRedisBackend",
    "call it",
  ],
  ["a module", redis, "a module", "createRedisBackend()"],
  ["undefined", undefined, "undefined", "where the value comes from"],
  ["null", null, "null", "where the value comes from"],
  ["a lock", await hold(backend, { key: "k" }), "a lock", "the backend that it was acquired on"],
];

const fn = vi.fn();
const config = { key: "k" };

const FORMS = {
  lock: (value) => lock(value, fn, config),
  tryLock: (value) => tryLock(value, fn, config),
  lead: (value) => lead(value, fn, config),
  hold: (value) => hold(value, config),
  tryHold: (value) => tryHold(value, config),
  owns: (value) => owns(value, "A".repeat(22)),
  getByKey: (value) => getByKey(value, "k"),
  getById: (value) => getById(value, "A".repeat(22)),
  acquireHandle: (value) => acquireHandle(value, { key: "k", ttlMs: 1000 }),
  createAutoLock: async (value) => createAutoLock(value),
  withTelemetry: async (value) => withTelemetry(value, { onEvent: fn }),
  listLocks: (value) => listLocks(value).next(),
  forceRelease: (value) => forceRelease(value, { key: "k" }),
  diagnose: (value) => diagnose(value),
};

async function refusal(promise) {
  const error = await promise.then(
    () => expect.unreachable("it was accepted"),
    (thrown) => thrown,
  );
  expect(error).toMatchObject({ name: "LockError", code: "InvalidArgument" });
  expect(error.message).not.toMatch(/s3cret|somebody|internal/);
  expect(fn).not.toHaveBeenCalled();
  return error.message;
}

describe.each(VALUES)("%s", (_, value, what, remedy) => {
  test.each(Object.keys(FORMS))("as the backend of %s()", async (form) => {
    const message = await refusal(FORMS[form](value));
    expect(message).toContain(`This is ${what}: `);
    expect(message).toContain(remedy);
  });

  test("in place of a config", async () => {
    if (value === undefined || value === null) return;
    for (const form of [hold, tryHold]) {
      const message = await refusal(form(value));
      expect(message).toContain("Key must be a string");
      expect(message).toContain(` got ${what} in place of its config: `);
      expect(message).toContain(remedy);
    }
  });
});

describe("other mistakes", () => {
  test.each([lock, tryLock, lead])("%o with a lock function and nothing to run", async (form) => {
    for (const args of [[createLock()], [createLock(), config], [sql, config]]) {
      expect(await refusal(form(...args))).toMatch(/ takes?| makes a backend|own tryLock/);
    }
  });

  test("a backend without a config", async () => {
    expect(await refusal(hold(backend))).toMatch(/hold\(\{ key \}\) got a backend .* after it/);
  });

  test("the config as the first argument", async () => {
    expect(await refusal(lock(config, fn))).toContain("in place of its options");
    expect(await refusal(lock(config, fn, config))).toContain("This is a config: it comes last");
  });

  test("an incomplete custom backend", async () => {
    const own = { acquire: fn };
    expect(await refusal(lock(own, () => {}, config))).toContain("This one has no release");
    expect(await refusal(lead(own, () => {}, config))).toContain("has no release, extend");
  });

  test("an unknown object", async () => {
    for (const value of [5, true, {}, []]) {
      expect(await refusal(hold(value, config))).toMatch(/an object with acquire, release$/);
    }
  });

  test("an object whose properties cannot be read", async () => {
    const hostile = new Proxy({}, { get: () => expect.fail("looked at") });
    expect(await refusal(hold(hostile, config))).toMatch(/an object with acquire, release$/);
  });

  test("a function whose properties are functions is run", async () => {
    const deepMock = new Proxy(() => 7, { get: () => () => {} });
    vi.stubEnv("SYNCGUARD_URL", "memory:");
    expect(await lock(deepMock, config)).toBe(7);
    vi.unstubAllEnvs();
  });
});

describe("as a target", () => {
  const CREATORS = [
    createBackend,
    syncguard.createLock,
    redis.createRedisBackend,
    createPostgresBackend,
    createFirestoreBackend,
    createSqliteBackend,
  ];
  const clients = VALUES.filter(([, value]) => typeof value === "object" && value !== null);

  test.each(clients.filter(([, value]) => !(value instanceof URL)))(
    "%s goes to the function that takes it",
    async (_, value, what, remedy) => {
      for (const create of CREATORS.filter(({ name }) => !remedy.startsWith(name))) {
        const message = await refusal((async () => create(value))());
        expect(message, create.name).toContain(what);
        expect(message, create.name).toContain(remedy);
      }
    },
  );

  test.each(CREATORS)("%o recognizes a backend", async (create) => {
    const message = await refusal((async () => create(backend))());
    expect(message).toMatch(/a backend already: pass it to lock\(\)/);
  });
});
