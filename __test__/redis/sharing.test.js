// A shared record, as it is stored and as programs see it that know only exclusive locks: another
// implementation with the documented scripts, and earlier versions of this package.

import { readFileSync } from "node:fs";
import { afterAll, describe, expect, test } from "vitest";
import { getByKeyRaw } from "../fixtures/api.js";
import { until } from "../fixtures/wait.js";
import { ioredis, open, prefix } from "./open.js";
import { createSecond } from "./second.js";

const redis = ioredis();
afterAll(() => redis.disconnect());

const TTL = { ttlMs: 60_000 };
const KEY = `zürich/"quoted"/{"lockId":"x"}`;

/** Returns the exclusive locks of a program that runs the documented scripts. */
const documented = (keyPrefix) => createSecond(redis, { keyPrefix });

/** Returns the exclusive locks of a program that runs the scripts of an earlier version. */
function earlier(keyPrefix) {
  const script = (name) => readFileSync(new URL(`./earlier/${name}.lua`, import.meta.url), "utf8");
  const lock = (key) => `${keyPrefix}:${key}`;
  const index = (lockId) => lock(`id:${lockId}`);
  const evaluate = (name, keys, ...args) => redis.eval(script(name), keys.length, ...keys, ...args);
  const release = async (lockId, ...keys) =>
    (await evaluate("release", [index(lockId), ...keys], lockId, 1000)) === 1;
  return {
    async acquire({ key, ttlMs }) {
      const lockId = `${prefix()}`.padEnd(22, "A");
      const keys = [lock(key), index(lockId), `${keyPrefix}:fence:${lock(key)}`];
      const [ok] = await evaluate("acquire", keys, lockId, ttlMs, 1000, lock(key), key, "");
      return { ok: ok === 1, lockId };
    },
    // It passes the name of the lock, if it has acquired it itself.
    async release({ lockId }) {
      const ok = await release(lockId, lock(KEY));
      return { ok: (await release(lockId)) || ok };
    },
    async extend({ lockId, ttlMs }) {
      const reply = await evaluate("extend", [index(lockId)], lockId, 1000, ttlMs);
      return { ok: Array.isArray(reply) };
    },
  };
}

const ours = (keyPrefix, cleanup) => {
  const backend = open({ keyPrefix });
  cleanup(() => backend.close());
  return backend;
};

describe.each([
  ["the documented scripts", documented],
  ["the scripts of an earlier version", earlier],
])("%s", (_, createOther) => {
  test("see a shared key as locked, and cannot change it", async ({ onTestFinished }) => {
    const keyPrefix = prefix();
    const backend = ours(keyPrefix, onTestFinished);
    const other = createOther(keyPrefix);
    const holders = [
      await backend.acquire({ key: KEY, ...TTL, concurrency: 2 }),
      await backend.acquire({ key: KEY, ...TTL, mode: "shared" }),
    ];
    const stored = await redis.get(`${keyPrefix}:${KEY}`);
    const { lockId: nobody } = JSON.parse(stored);
    expect(await other.acquire({ key: KEY, ttlMs: 1000 })).toMatchObject({ ok: false });
    for (const lockId of [...holders.map(({ lockId }) => lockId), nobody]) {
      expect(await other.extend({ lockId, ttlMs: 1 })).toMatchObject({ ok: false });
      // The earlier version would only be told the record's own lockId by somebody who reads the store.
      if (lockId !== nobody) expect(await other.release({ lockId })).toEqual({ ok: false });
    }
    expect(await redis.get(`${keyPrefix}:${KEY}`)).toBe(stored);
    for (const holder of holders) {
      expect((await holder.extend(50_000)).ok).toBe(true);
      expect(await holder.release()).toEqual({ ok: true });
    }
    const next = await other.acquire({ key: KEY, ttlMs: 60_000 });
    expect(next.ok).toBe(true);
    expect(await backend.acquire({ key: KEY, ...TTL, mode: "shared" })).toMatchObject({
      ok: false,
    });
    expect(await other.release(next)).toEqual({ ok: true });
    expect(await backend.acquire({ key: KEY, ...TTL, mode: "shared" })).toMatchObject({
      ok: true,
      slot: 0,
      fence: "000000000000004",
    });
  });

  test("take over a key whose holders have expired, who then find nothing", async ({
    onTestFinished,
  }) => {
    const keyPrefix = prefix();
    const backend = ours(keyPrefix, onTestFinished);
    const other = createOther(keyPrefix);
    const holder = await backend.acquire({ key: KEY, ttlMs: 300, mode: "shared" });
    // As if Redis had not yet removed the record and the index.
    await redis.persist(`${keyPrefix}:${KEY}`);
    await redis.set(`${keyPrefix}:id:${holder.lockId}`, `${keyPrefix}:${KEY}`);
    let next;
    await until(async () => {
      next = await other.acquire({ key: KEY, ttlMs: 60_000 });
      return next.ok;
    }, "the tolerance to be over");
    const stored = await redis.get(`${keyPrefix}:${KEY}`);
    expect((await holder.extend(60_000)).ok).toBe(false);
    expect(await holder.release()).toEqual({ ok: false });
    expect(await redis.get(`${keyPrefix}:${KEY}`)).toBe(stored);
    expect(await getByKeyRaw(backend, KEY)).toMatchObject({ lockId: next.lockId });
  });

  test("are respected by shared attempts, and keep increasing the fence", async ({
    onTestFinished,
  }) => {
    const keyPrefix = prefix();
    const backend = ours(keyPrefix, onTestFinished);
    const other = createOther(keyPrefix);
    for (const round of [1, 3, 5]) {
      const lock = await other.acquire({ key: KEY, ttlMs: 60_000 });
      for (const share of [{ mode: "shared" }, { concurrency: 2 }]) {
        expect((await backend.acquire({ key: KEY, ...TTL, ...share })).ok).toBe(false);
      }
      await other.release(lock);
      const share = await backend.acquire({ key: KEY, ...TTL, mode: "shared" });
      expect(Number(share.fence)).toBe(round + 1);
      await share.release();
    }
  });
});

describe.each(["native", "eval"])("over %s", (way) => {
  const target = way === "eval" ? { eval: (...args) => redis.eval(...args) } : undefined;

  test("the record of holders, each with an index of its own", async ({ onTestFinished }) => {
    const keyPrefix = prefix();
    const backend = open({ ...(target && { target }), keyPrefix, holderLabel: 'a[1] "b"' });
    onTestFinished(() => backend.close());
    const first = await backend.acquire({ key: KEY, ttlMs: 90_000, concurrency: 3 });
    const second = await backend.acquire({ key: KEY, ttlMs: 30_000, concurrency: 3 });
    const stored = JSON.parse(await redis.get(`${keyPrefix}:${KEY}`));
    expect(stored).toEqual({
      lockId: expect.stringMatching(/^[\w-]{22}$/),
      expiresAtMs: first.expiresAtMs,
      acquiredAtMs: second.expiresAtMs - 30_000,
      key: KEY,
      fence: second.fence,
      freed: 0,
      holders: [
        [first.lockId, first.expiresAtMs, 0, first.expiresAtMs - 90_000, 1, 'a[1] "b"'],
        [second.lockId, second.expiresAtMs, 1, second.expiresAtMs - 30_000, 2, 'a[1] "b"'],
      ],
    });
    const keys = [KEY, ...[first, second].map(({ lockId }) => `id:${lockId}`)];
    const [ofLock, ofFirst, ofSecond] = await Promise.all(
      keys.map((key) => redis.pttl(`${keyPrefix}:${key}`)),
    );
    expect(Math.abs(ofLock - ofFirst)).toBeLessThan(5_000);
    expect(ofFirst).toBeGreaterThan(60_000);
    expect(ofSecond).toBeLessThanOrEqual(30_000);
    expect((await first.release()).ok && (await second.release()).ok).toBe(true);
    expect(await redis.keys(`${keyPrefix}:*`)).toEqual([`${keyPrefix}:fence:${keyPrefix}:${KEY}`]);
  });
});

test("an exclusive lock is stored as before, also after the key was shared", async ({
  onTestFinished,
}) => {
  const keyPrefix = prefix();
  const backend = ours(keyPrefix, onTestFinished);
  const share = await backend.acquire({ key: "k", ...TTL, mode: "shared" });
  await share.release();
  const { lockId, expiresAtMs, fence } = await backend.acquire({ key: "k", ...TTL });
  const acquiredAtMs = expiresAtMs - TTL.ttlMs;
  expect(await redis.get(`${keyPrefix}:k`)).toBe(
    JSON.stringify({ lockId, expiresAtMs, acquiredAtMs, key: "k", fence }),
  );
});

test("isLocked removes a shared record that expired long ago, with its indexes", async ({
  onTestFinished,
}) => {
  const keyPrefix = prefix();
  const backend = open({ keyPrefix, cleanupInIsLocked: true });
  onTestFinished(() => backend.close());
  const { lockId } = await backend.acquire({ key: "k", ttlMs: 200, mode: "shared" });
  await redis.persist(`${keyPrefix}:k`);
  await redis.set(`${keyPrefix}:id:${lockId}`, `${keyPrefix}:k`);
  await until(async () => {
    await backend.isLocked({ key: "k" });
    return (await redis.exists(`${keyPrefix}:k`)) === 0;
  }, "the clean-up");
  expect(await redis.keys(`${keyPrefix}:*`)).toEqual([`${keyPrefix}:fence:${keyPrefix}:k`]);
});
