// A server that is down, killed, silent, full or blocked.

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createPostgresBackend, setupSchema } from "../../js/postgres.js";
import { freePort, startPostgres } from "../../scripts/servers.mjs";
import { lock } from "../fixtures/api.js";
import { rejection } from "../contracts/setup.js";
import { OverlapChecker } from "../fixtures/overlap.js";
import { NOISE_MS, until, untilFree } from "../fixtures/wait.js";
import { connect, open, tables } from "./open.js";
import { startProxy } from "./proxy.js";

const ttlMs = 60_000;
let server;
beforeAll(async () => {
  server = await startPostgres();
  await setupSchema(server.url);
});
afterAll(() => server.stop());

/** Operations until one works; before, only errors of these codes. */
const again = (operation, codes) =>
  until(() =>
    operation().catch((error) => {
      expect(codes).toContain(error.code);
    }),
  );

test("a server that is down is unavailable", async () => {
  const url = `postgres://u@127.0.0.1:${await freePort()}/d`;
  const backend = createPostgresBackend(url, { connectTimeoutMs: 1_000 });
  const since = performance.now();
  const outcomes = await Promise.allSettled([
    backend.acquire({ key: "k", ttlMs }),
    backend.release({ lockId: "A".repeat(22) }),
    backend.isLocked({ key: "k" }),
  ]);
  expect(performance.now() - since).toBeLessThan(1_000 + NOISE_MS);
  for (const { reason } of outcomes) {
    expect(reason.code).toBe("ServiceUnavailable");
    expect(reason.message).toContain(new URL(url).host);
  }
  await expect(setupSchema(url, { connectTimeoutMs: 1_000 })).rejects.toMatchObject({
    code: "ServiceUnavailable",
  });
  await backend.close();
});

test("a server that is killed and restarted under load", async () => {
  const backend = await open({ url: server.url });
  const overlap = new OverlapChecker();
  const codes = new Set();
  let stopped = false;
  let done = 0;
  const worker = async (key) => {
    while (!stopped) {
      try {
        await lock(
          backend,
          async ({ fence }) => {
            const leave = overlap.enter(key, fence);
            await new Promise(setImmediate);
            leave();
            done++;
          },
          { key, ttlMs: 2_000, acquisition: { retryDelayMs: 5, timeoutMs: 1_000 } },
        );
      } catch ({ code }) {
        codes.add(code);
      }
    }
  };
  const workers = ["a", "a", "a", "b", "b", "c"].map(worker);
  await until(() => done > 20);
  await server.kill();
  await until(() => codes.size > 0);
  await server.restart();
  const before = done;
  await until(() => done > before + 20);
  stopped = true;
  await Promise.all(workers);
  expect(overlap.violations).toEqual([]);
  for (const code of codes) {
    expect(["ServiceUnavailable", "NetworkTimeout", "AcquisitionTimeout"]).toContain(code);
  }
  await backend.close();
}, 60_000);

test("5,000 operations in flight when the server dies all end, and none leaves a lock", async () => {
  const backend = await open({ url: server.url });
  await backend.isLocked({ key: "warm" });
  const sql = connect(server.url, { max: 1 });
  const stranger = await sql.reserve();
  const operations = [];
  const start = (many) => {
    for (let count = 0; count < many; count++) {
      const acquired = backend.acquire({ key: `flight:${operations.length}`, ttlMs: 600_000 });
      operations.push(acquired.catch((error) => error.code));
    }
  };
  start(4_000);
  await Promise.race(operations);
  // Operations that start now still wait when the server dies, however fast it is.
  await stranger`BEGIN`;
  await stranger`LOCK TABLE syncguard_locks`;
  start(1_000);
  await server.kill();
  await sql.end({ timeout: 0 });
  const outcomes = await Promise.all(operations);
  await server.restart();
  const held = outcomes.filter((outcome) => outcome.ok);
  const failed = outcomes.filter((outcome) => typeof outcome === "string");
  expect(held.length).toBeGreaterThan(0);
  expect(held.length + failed.length).toBe(5_000);
  expect(failed.length).toBeGreaterThanOrEqual(1_000);
  for (const code of new Set(failed)) {
    expect(["ServiceUnavailable", "NetworkTimeout"]).toContain(code);
  }
  await again(
    () => backend.isLocked({ key: "warm" }).then(() => true),
    ["ServiceUnavailable", "NetworkTimeout"],
  );
  const granted = new Set(held.map((one) => one.lockId));
  const strangers = async () => {
    const sql = connect(server.url, { max: 1 });
    const rows = await sql`SELECT lock_id FROM syncguard_locks WHERE key LIKE 'flight:%'`;
    await sql.end();
    return rows.filter(({ lock_id }) => !granted.has(lock_id)).length;
  };
  await until(async () => (await strangers()) === 0, "the undoing of what was not answered");
  expect((await Promise.all(held.map((one) => one.release()))).every(({ ok }) => ok)).toBe(true);
  await backend.close();
}, 120_000);

test("terminated connections are replaced", async () => {
  const backend = await open({ url: server.url });
  const held = await backend.acquire({ key: "terminated", ttlMs });
  for (let times = 0; times < 5; times++) {
    await server.psql(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'syncguard'",
    );
    const extended = await again(() => held.extend(ttlMs), ["ServiceUnavailable"]);
    expect(extended.ok).toBe(true);
  }
  expect(await held.release()).toEqual({ ok: true });
  await backend.close();
});

describe("a server that is suspended", () => {
  test("is a NetworkTimeout, for new and for old connections, and works again", async () => {
    const options = { operationTimeoutMs: 500, connectTimeoutMs: 500 };
    const old = await open({ url: server.url, ...options });
    await old.isLocked({ key: "still" });
    const fresh = createPostgresBackend(server.url, options);
    server.suspend();
    try {
      for (const backend of [old, fresh]) {
        const since = performance.now();
        const outcomes = await Promise.allSettled([
          backend.acquire({ key: "still", ttlMs }),
          backend.lookup({ key: "still" }),
          setupSchema(server.url, options),
        ]);
        expect(performance.now() - since).toBeGreaterThanOrEqual(450);
        expect(performance.now() - since).toBeLessThan(1_000 + NOISE_MS);
        for (const { reason } of outcomes) expect(reason.code).toBe("NetworkTimeout");
      }
    } finally {
      server.resume();
    }
    await again(() => untilFree(old, "still").then(() => true), ["NetworkTimeout"]);
    expect(await fresh.acquire({ key: "still", ttlMs })).toMatchObject({ ok: true });
    await Promise.all([old.close(), fresh.close()]);
  });

  test("an acquire whose answer is lost is released as soon as the server answers", async () => {
    const proxy = await startProxy(server.port);
    const url = server.url.replace(`:${server.port}/`, `:${proxy.port}/`);
    const backend = createPostgresBackend(url, { operationTimeoutMs: 500, poolSize: 1 });
    const watcher = await open({ url: server.url });
    await backend.isLocked({ key: "lost" });
    const seen = watchFor(server, "lost");
    proxy.loseAnswers = true;
    await expect(backend.acquire({ key: "lost", ttlMs: 600_000 })).rejects.toMatchObject({
      code: "NetworkTimeout",
    });
    expect(await seen).toBe(true);
    proxy.loseAnswers = false;
    await untilFree(watcher, "lost");
    await Promise.all([backend.close(), watcher.close()]);
    await proxy.stop();
  });

  test("a connection that is cut during an acquire leaves no lock", async () => {
    const proxy = await startProxy(server.port);
    const url = server.url.replace(`:${server.port}/`, `:${proxy.port}/`);
    const backend = createPostgresBackend(url);
    const watcher = await open({ url: server.url });
    await backend.isLocked({ key: "cut" });
    const seen = watchFor(server, "cut");
    proxy.loseAnswers = true;
    const acquiring = backend.acquire({ key: "cut", ttlMs: 600_000 });
    expect(await seen).toBe(true);
    proxy.loseAnswers = false;
    proxy.cut();
    await expect(acquiring).rejects.toMatchObject({ code: "ServiceUnavailable" });
    await untilFree(watcher, "cut");
    await Promise.all([backend.close(), watcher.close()]);
    await proxy.stop();
  });
});

describe("another session holds a database lock", () => {
  test.each([
    [
      "the turn of the key",
      (tx) => tx`SELECT pg_advisory_xact_lock(1398361667, hashtext('stuck'))`,
    ],
    ["the row", (tx) => tx`UPDATE syncguard_locks SET fence = fence WHERE key = 'stuck'`],
    ["the table", (tx) => tx`LOCK TABLE syncguard_locks`],
  ])("%s: a timeout with the server's word that nothing was done", async (_, block) => {
    const backend = await open({ url: server.url, operationTimeoutMs: 2_000, poolSize: 2 });
    const sql = connect(server.url);
    const expired = await backend.acquire({ key: "stuck", ttlMs: 1 });
    await sql`UPDATE syncguard_locks SET expires_at_ms = 1 WHERE key = 'stuck'`;
    await sql.begin(async (tx) => {
      await block(tx);
      const since = performance.now();
      const error = await rejection(backend.acquire({ key: "stuck", ttlMs }));
      expect(error.code).toBe("NetworkTimeout");
      expect(error.message).toContain("pg_locks");
      expect(error.context.sqlstate).toBe("55P03");
      expect(performance.now() - since).toBeLessThan(1_000 + NOISE_MS);
      // More than the pool has connections: operations that wait for one time out too.
      const many = Array.from({ length: 20 }, () => backend.acquire({ key: "stuck", ttlMs }));
      for (const one of await Promise.allSettled(many)) {
        expect(one.reason.code).toBe("NetworkTimeout");
      }
    });
    const held = await backend.acquire({ key: "stuck", ttlMs });
    expect(Number(held.fence)).toBe(Number(expired.fence) + 1);
    await held.release();
    await Promise.all([backend.close(), sql.end()]);
  });

  test("a lock_timeout of the role does not change that", async () => {
    await server.psql("ALTER ROLE syncguard SET lock_timeout = 10");
    try {
      const backend = await open({ url: server.url, operationTimeoutMs: 600 });
      const sql = connect(server.url);
      await sql.begin(async (tx) => {
        await tx`SELECT pg_advisory_xact_lock(1398361667, hashtext('timeout'))`;
        await expect(backend.acquire({ key: "timeout", ttlMs })).rejects.toMatchObject({
          code: "NetworkTimeout",
        });
      });
      await Promise.all([backend.close(), sql.end()]);
    } finally {
      await server.psql("ALTER ROLE syncguard RESET lock_timeout");
    }
  });

  test("the holder's critical section is never waited for", async () => {
    const backend = await open({ url: server.url, operationTimeoutMs: 1_000 });
    const held = await backend.acquire({ key: "section", ttlMs });
    expect(await backend.acquire({ key: "section", ttlMs })).toMatchObject({ ok: false });
    await held.release();
    await backend.close();
  });
});

test("a full server is RateLimited", async () => {
  await server.psql("CREATE ROLE few LOGIN CONNECTION LIMIT 0");
  const backend = createPostgresBackend(server.url.replace("//syncguard@", "//few@"));
  await expect(backend.isLocked({ key: "k" })).rejects.toMatchObject({
    code: "RateLimited",
    context: { sqlstate: "53300" },
  });
  await backend.close();
});

test("a read-only server is reported as such", async () => {
  const backend = createPostgresBackend(
    `${server.url}?options=-c%20default_transaction_read_only=on`,
  );
  await expect(backend.acquire({ key: "k", ttlMs })).rejects.toMatchObject({
    context: { sqlstate: "25006" },
  });
  expect(await backend.isLocked({ key: "k" })).toBe(false);
  await backend.close();
});

test("idle connections are closed and opened again when needed", async () => {
  const url = `${server.url}?application_name=idle`;
  const backend = await open({ url, poolSize: 3, idleTimeoutMs: 200 });
  const keys = ["a", "b", "c", "d", "e", "f"];
  await Promise.all(keys.map((key) => backend.isLocked({ key })));
  const count = () =>
    server.psql("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'idle'");
  await until(async () => (await count()) === "0");
  expect(await backend.isLocked({ key: "a" })).toBe(false);
  await backend.close();
  await until(async () => (await count()) === "0");
});

test("a release may be repeated, for example after a lost answer", async () => {
  const names = tables();
  const backend = await open({ url: server.url, ...names });
  const held = await backend.acquire({ key: "k", ttlMs });
  const { lockId } = held;
  const released = await Promise.all([1, 2, 3].map(() => backend.release({ lockId })));
  expect(released.filter(({ ok }) => ok)).toHaveLength(1);
  const next = await backend.acquire({ key: "k", ttlMs });
  expect(await backend.release({ lockId })).toEqual({ ok: false });
  expect(await next.release()).toEqual({ ok: true });
  await backend.close();
});

/** Whether the lock appears in the table. */
async function watchFor(server, key) {
  const sql = connect(server.url, { max: 1 });
  const rows = () => sql`SELECT 1 FROM syncguard_locks WHERE key = ${key}`;
  await until(async () => (await rows()).length > 0, "the lock in the table");
  await sql.end();
  return true;
}
