// The option cleanupInIsLocked: what isLocked() may remove in the background, and what it must not.

import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, describe, expect, test } from "vitest";
import { collections, google, open as openFirestore } from "../firestore/open.js";
import { until } from "../fixtures/wait.js";
import { connect, open as openPostgres, tables } from "../postgres/open.js";
import { ioredis, open as openRedis, prefix } from "../redis/open.js";

/** For each store: how to read the stored lock, and how to change its expiry. */
const STORES = {
  redis() {
    const redis = ioredis();
    const keyPrefix = prefix();
    const stored = () => redis.get(`${keyPrefix}:k`);
    return {
      open: (options) => openRedis({ keyPrefix, ...options }),
      stored,
      // Stored without a TTL, because Redis would otherwise remove the lock itself.
      endAt: async (ms) => {
        const lock = { ...JSON.parse(await stored()), expiresAtMs: ms };
        await redis.set(`${keyPrefix}:k`, JSON.stringify(lock));
      },
      counter: () => redis.get(`${keyPrefix}:fence:${keyPrefix}:k`),
      end: () => redis.disconnect(),
    };
  },
  postgres() {
    const sql = connect();
    const names = tables();
    const [locks, fences] = [sql(names.tableName), sql(names.fenceTableName)];
    return {
      open: (options) => openPostgres({ ...names, ...options }),
      stored: async () => JSON.stringify((await sql`SELECT * FROM ${locks}`)[0]),
      endAt: (ms) => sql`UPDATE ${locks} SET expires_at_ms = ${ms}`,
      counter: async () => (await sql`SELECT fence FROM ${fences}`)[0].fence,
      end: () => sql.end(),
    };
  },
  firestore() {
    const db = google();
    const names = collections();
    const document = db.collection(names.collection).doc("k");
    const counter = db.collection(names.fenceCollection).doc("fence:k");
    return {
      open: (options) => openFirestore({ ...names, ...options }),
      stored: async () => JSON.stringify((await document.get()).data()),
      endAt: (ms) => document.update({ expiresAtMs: ms }),
      counter: async () => (await counter.get()).data().fence,
      end: () => db.terminate(),
    };
  },
};

describe.each(Object.keys(STORES))("%s", (name) => {
  const store = STORES[name]();
  const opened = [];
  const open = async (cleanupInIsLocked) => {
    const backend = await store.open({ cleanupInIsLocked });
    opened.push(backend);
    return backend;
  };
  afterAll(async () => {
    await Promise.all(opened.map((backend) => backend.close()));
    await store.end();
  });

  /** Waits for work in the background. */
  const afterAWhile = async () => {
    await sleep(300);
    return store.stored();
  };

  test("a live lock does not change", async () => {
    const backend = await open(true);
    const held = await backend.acquire({ key: "k", ttlMs: 60_000 });
    const before = await store.stored();
    for (let round = 0; round < 5; round++) expect(await backend.isLocked({ key: "k" })).toBe(true);
    expect(await afterAWhile()).toBe(before);
    expect(await held.release()).toEqual({ ok: true });
  });

  test("a lock that has just expired stays", async () => {
    const backend = await open(true);
    // Beyond the tolerance but within the guard. Repeated if the machine was too slow for that.
    const kept = await until(async () => {
      await backend.acquire({ key: "k", ttlMs: 60_000 });
      const endedAt = Date.now() - 1_100;
      await store.endAt(endedAt);
      expect(await backend.isLocked({ key: "k" })).toBe(false);
      return Date.now() - endedAt < 1_900 && { stored: await afterAWhile() };
    }, "a try within the guard");
    expect(`${kept.stored}`).toContain("expires");
  });

  test("a lock that expired long ago is removed, its counter stays, and the answer is the same", async () => {
    const counter = await store.counter();
    await store.endAt(Date.now() - 60_000);
    const before = await store.stored();
    expect(await (await open(false)).isLocked({ key: "k" })).toBe(false);
    expect(await afterAWhile()).toBe(before);
    const backend = await open(true);
    expect(await backend.isLocked({ key: "k" })).toBe(false);
    await until(async () => !(await store.stored()), "the lock to be removed");
    expect(await store.counter()).toBe(counter);
    expect(await backend.isLocked({ key: "k" })).toBe(false);
  });
});
