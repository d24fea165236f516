// Passwords that a function returns. It is called for each new connection.

import { inspect } from "node:util";
import pg from "pg";
import postgres from "postgres";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createPostgresBackend, setupSchema } from "../../js/postgres.js";
import { startPostgres } from "../../scripts/servers.mjs";
import { rejection } from "../contracts/setup.js";
import { forceRelease, hold } from "../fixtures/api.js";
import { collectGarbage } from "../fixtures/gc.js";
import { block, NOISE_MS, until } from "../fixtures/wait.js";

const ttlMs = 60_000;
let server;
beforeAll(async () => {
  server = await startPostgres({ password: "of the administrator" });
  await setupSchema(server.url);
});
afterAll(() => server.stop());

let roles = 0;
/** A role whose password can be changed. */
async function newRole() {
  const role = `rotating_${++roles}`;
  await server.psql(`CREATE ROLE ${role} LOGIN;
    GRANT ALL ON syncguard_locks, syncguard_fence_counters TO ${role}`);
  const { host, port, database } = server;
  return {
    where: { host, port, database, user: role },
    change: (password) => server.psql(`ALTER ROLE ${role} PASSWORD '${password}'`),
    cut: () =>
      server.psql(
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '${role}'`,
      ),
  };
}

const clients = [
  ["a pg Pool", (options) => new pg.Pool(options)],
  ["a pg Client", (options) => new pg.Client(options)],
  ["postgres.js", (options) => postgres(options)],
  ["options", (options) => options],
];

describe.each(clients)("%s", (_, client) => {
  test("each new connection asks for the password of the day", async () => {
    const { where, change, cut } = await newRole();
    let today = "one";
    let calls = 0;
    const password = async () => {
      calls += 1;
      return today;
    };
    await change(today);
    const target = client({ ...where, password });
    await setupSchema(target);
    const backend = createPostgresBackend(target, { connectTimeoutMs: 20_000 });
    const held = await hold(backend, { key: `k${roles}`, ttlMs: 6_000, autoExtend: true });
    for (const next of ["two", "it's \\ three", "ö four"]) {
      const before = calls;
      today = next;
      await change(next.replaceAll("'", "''"));
      // More than once, because a connection that is just being opened is not listed yet.
      await until(async () => {
        await cut();
        await backend.isLocked({ key: "any" }).catch(() => {});
        return calls > before;
      }, "a new connection");
      expect(await until(() => backend.isLocked({ key: `k${roles}` }).catch(() => false))).toBe(
        true,
      );
    }
    expect(held.isHeld()).toBe(true);
    await held.release();
    await backend.close();
  }, 90_000);

  test("an error of the function is the cause, and nothing of it is printed", async () => {
    const { where } = await newRole();
    const failure = new Error("the token s3cret has expired");
    const password = () => Promise.reject(failure);
    const backend = createPostgresBackend(client({ ...where, password }));
    const error = await rejection(backend.acquire({ key: "k", ttlMs }));
    expect(error.code).toBe("AuthFailed");
    expect(error.message).toMatch(/function for the PostgreSQL password threw an error/);
    expect(error.context.cause).toBe(failure);
    expect(inspect(error)).not.toContain("s3cret");
    await backend.close();
  });
});

test("a password that is wrong is AuthFailed, and is not printed", async () => {
  const { where, change } = await newRole();
  await change("right");
  const backend = createPostgresBackend({ ...where, password: () => "s3cret" });
  const error = await rejection(backend.isLocked({ key: "k" }));
  expect(error.code).toBe("AuthFailed");
  expect(inspect(error)).not.toContain("s3cret");
  await backend.close();
});

test.each([
  ["a number", () => 5],
  ["an object", () => ({ password: "s3cret" })],
])("%s is no password", async (_, password) => {
  const { where } = await newRole();
  const backend = createPostgresBackend({ ...where, password });
  const error = await rejection(backend.isLocked({ key: "k" }));
  expect(error.code).toBe("AuthFailed");
  expect(error.context.cause).toBeInstanceOf(TypeError);
  expect(inspect(error, { depth: 9 })).not.toContain("s3cret");
  await backend.close();
});

test("no answer within connectTimeoutMs is a NetworkTimeout that says so", async () => {
  const { where } = await newRole();
  const limits = { connectTimeoutMs: 500, operationTimeoutMs: 500 };
  const backend = createPostgresBackend(
    { ...where, password: () => new Promise(() => {}) },
    limits,
  );
  const since = performance.now();
  const error = await rejection(backend.isLocked({ key: "k" }));
  expect(error.code).toBe("NetworkTimeout");
  expect(error.message).toContain("connectTimeoutMs");
  expect(performance.now() - since).toBeLessThan(500 + NOISE_MS);
  await backend.close();
});

test("heartbeats go on over open connections while the event loop is blocked", async () => {
  const { where, change } = await newRole();
  await change("pw");
  const backend = createPostgresBackend({ ...where, password: () => "pw" });
  const held = await hold(backend, { key: "blocked", ttlMs: 1_500, autoExtend: true });
  // The first heartbeat may use another connection than the acquire.
  await until(() => held.expiresAtMs > Date.now() + 1_100);
  block(3_000);
  expect(held.isHeld()).toBe(true);
  await held.release();
  await backend.close();
});

test("a lock whose backend was collected is kept alive over new connections", async () => {
  const { where, change, cut } = await newRole();
  await change("pw");
  let calls = 0;
  const password = () => {
    calls += 1;
    return "pw";
  };
  const key = "collected";
  const forget = async () => {
    const backend = createPostgresBackend({ ...where, password });
    await hold(backend, { key, ttlMs: 6_000, autoExtend: true });
  };
  await forget();
  await collectGarbage();
  const before = calls;
  await until(async () => {
    await collectGarbage();
    await cut();
    return calls > before;
  }, "a new connection");
  const watcher = createPostgresBackend(server.url);
  const expiry = async () => (await watcher.lookup({ key }))?.expiresAtMs;
  const first = await expiry();
  expect(first).toBeGreaterThan(0);
  await until(async () => (await expiry()) > first + 1_000, "heartbeats");
  await forceRelease(watcher, { key });
  await watcher.close();
});
