// Another implementation of the same format respects our locks, and we respect its locks.

import { createHash } from "node:crypto";
import { afterAll, describe, expect, test } from "vitest";
import { getByIdRaw, getByKeyRaw, owns } from "../fixtures/api.js";
import { ioredis, open, prefix } from "./open.js";
import { createSecond } from "./second.js";

const redis = ioredis();
afterAll(() => redis.disconnect());

const KEYS = {
  plain: "resource:123",
  "a Unicode": "zürich/日本/🔒/e\u0301",
  "a JSON-looking": '{"lockId":"x","expiresAtMs":1,"fence":"9"}',
  "a quote-laden": `"'\\"\\\\/\\u0041 \t\n`,
  "a 512-byte": "k".repeat(512),
};
const PREFIXES = { "a short": () => prefix(), "a 900-byte": () => prefix().padEnd(900, "p") };

const ours = (keyPrefix, cleanup) => {
  const backend = open({ keyPrefix });
  cleanup(() => backend.close());
  return backend;
};

describe.each(Object.entries(PREFIXES))("%s prefix", (_, makePrefix) => {
  describe.each(Object.entries(KEYS))("%s key", (_, key) => {
    test("a lock of ours is respected, found, extended and released by the other", async ({
      onTestFinished,
    }) => {
      const keyPrefix = makePrefix();
      const first = ours(keyPrefix, onTestFinished);
      const second = createSecond(redis, { keyPrefix });
      const lock = await first.acquire({ key, ttlMs: 30_000 });

      expect(await second.acquire({ key, ttlMs: 1000 })).toMatchObject({ ok: false });
      const stored = await second.lookupKey(key);
      expect(stored).toEqual({
        lockId: lock.lockId,
        expiresAtMs: lock.expiresAtMs,
        acquiredAtMs: lock.expiresAtMs - 30_000,
        key: key.normalize("NFC"),
        fence: lock.fence,
      });
      expect(await second.lookupId(lock.lockId)).toEqual(stored);

      const extended = await second.extend({ lockId: lock.lockId, ttlMs: 60_000 });
      expect(extended.ok).toBe(true);
      expect(await first.lookup({ key })).toMatchObject({ expiresAtMs: extended.expiresAtMs });
      expect((await lock.extend(45_000)).ok).toBe(true);

      expect(await second.release({ lockId: lock.lockId })).toEqual({ ok: true });
      expect(await first.isLocked({ key })).toBe(false);
      expect(await lock.release()).toEqual({ ok: false });
    });

    test("a lock of the other is respected, found, extended and released by us", async ({
      onTestFinished,
    }) => {
      const keyPrefix = makePrefix();
      const first = ours(keyPrefix, onTestFinished);
      const second = createSecond(redis, { keyPrefix });
      const { lockId, fence, expiresAtMs } = await second.acquire({ key, ttlMs: 30_000 });

      expect(await first.acquire({ key, ttlMs: 1000 })).toMatchObject({ ok: false });
      expect(await first.isLocked({ key })).toBe(true);
      expect(await owns(first, lockId)).toBe(true);
      const expected = { key: key.normalize("NFC"), lockId, fence, expiresAtMs };
      expect(await getByKeyRaw(first, key)).toMatchObject(expected);
      expect(await getByIdRaw(first, lockId)).toMatchObject(expected);

      const extended = await first.extend({ lockId, ttlMs: 60_000 });
      expect(extended.ok).toBe(true);
      expect((await second.lookupId(lockId)).expiresAtMs).toBe(extended.expiresAtMs);
      expect((await second.extend({ lockId, ttlMs: 50_000 })).ok).toBe(true);

      expect(await first.release({ lockId })).toEqual({ ok: true });
      expect(await second.lookupKey(key)).toBe(null);
    });

    test("fences increase across both implementations", async ({ onTestFinished }) => {
      const keyPrefix = makePrefix();
      const backends = [ours(keyPrefix, onTestFinished), createSecond(redis, { keyPrefix })];
      const fences = [];
      for (let round = 0; round < 6; round++) {
        const lock = await backends[round % 2].acquire({ key, ttlMs: 30_000 });
        fences.push(Number(lock.fence));
        await lock.release();
      }
      expect(fences).toEqual([1, 2, 3, 4, 5, 6]);
    });
  });
});

test("a lock and its index end together", async ({ onTestFinished }) => {
  const keyPrefix = prefix();
  const backend = ours(keyPrefix, onTestFinished);
  const lock = await backend.acquire({ key: "k", ttlMs: 30_000 });
  const left = async () => {
    const keys = [`${keyPrefix}:k`, `${keyPrefix}:id:${lock.lockId}`];
    const replies = await keys.reduce((multi, key) => multi.pttl(key), redis.multi()).exec();
    return replies.map(([, ms]) => ms);
  };
  for (const ttlMs of [30_000, 90_000, 10_000]) {
    if (ttlMs !== 30_000) await lock.extend(ttlMs);
    const [ofLock, ofIndex] = await left();
    expect(Math.abs(ofLock - ofIndex)).toBeLessThanOrEqual(1);
    expect(ofLock).toBeGreaterThan(ttlMs - 5_000);
    expect(ofLock).toBeLessThanOrEqual(ttlMs);
  }
});

test("the longest key that is stored as it is, and the shortest that is hashed", async ({
  onTestFinished,
}) => {
  const keyPrefix = prefix().padEnd(900, "p");
  const backend = ours(keyPrefix, onTestFinished);
  // 1000 bytes, less 26 in reserve, the prefix and a colon.
  const last = "k".repeat(1000 - 26 - 900 - 1);
  await backend.acquire({ key: last, ttlMs: 30_000 });
  expect(await redis.exists(`${keyPrefix}:${last}`)).toBe(1);
  const first = `${last}k`;
  await backend.acquire({ key: first, ttlMs: 30_000 });
  const hash = createHash("sha256").update(`${keyPrefix}:${first}`).digest().subarray(0, 16);
  expect(await redis.exists(`${keyPrefix}:${hash.toString("base64url")}`)).toBe(1);
  expect(await redis.exists(`${keyPrefix}:${first}`)).toBe(0);
});

test("both implementations store the same keys", async ({ onTestFinished }) => {
  const seen = [];
  for (const make of [ours, (keyPrefix) => createSecond(redis, { keyPrefix })]) {
    const keyPrefix = prefix();
    const { lockId } = await make(keyPrefix, onTestFinished).acquire({ key: "k", ttlMs: 30_000 });
    const keys = (await redis.keys(`${keyPrefix}:*`)).sort();
    const types = await Promise.all(keys.map((key) => redis.object("ENCODING", key)));
    const expiring = await Promise.all(keys.map(async (key) => (await redis.pttl(key)) > 0));
    seen.push([
      keys.map((key) => key.replaceAll(keyPrefix, "PREFIX").replace(lockId, "ID")),
      types,
      expiring,
    ]);
  }
  expect(seen[0]).toEqual(seen[1]);
  expect(seen[0][0]).toEqual(["PREFIX:fence:PREFIX:k", "PREFIX:id:ID", "PREFIX:k"]);
});

describe.each(["native", "eval"])("a holder's label, over %s", (way) => {
  const LABEL = `web-1:42 "a" \\ / é`;
  const target = way === "eval" ? { eval: (...args) => redis.eval(...args) } : undefined;
  const labelled = (keyPrefix, cleanup) => {
    const backend = open({ ...(target && { target }), keyPrefix, holderLabel: LABEL });
    cleanup(() => backend.close());
    return backend;
  };

  test("is one more field, which the other implementation keeps", async ({ onTestFinished }) => {
    const keyPrefix = prefix();
    const first = labelled(keyPrefix, onTestFinished);
    const second = createSecond(redis, { keyPrefix });
    const lock = await first.acquire({ key: KEYS["a quote-laden"], ttlMs: 30_000 });
    const stored = await second.lookupKey(KEYS["a quote-laden"]);
    expect(stored).toEqual({
      lockId: lock.lockId,
      expiresAtMs: lock.expiresAtMs,
      acquiredAtMs: lock.expiresAtMs - 30_000,
      key: KEYS["a quote-laden"],
      fence: lock.fence,
      holderLabel: LABEL,
    });
    const extended = await second.extend({ lockId: lock.lockId, ttlMs: 60_000 });
    expect(extended.ok).toBe(true);
    const { holderLabel, expiresAtMs } = await first.lookup({ lockId: lock.lockId });
    expect({ holderLabel, expiresAtMs }).toEqual({
      holderLabel: LABEL,
      expiresAtMs: extended.expiresAtMs,
    });
    expect(await second.release({ lockId: lock.lockId })).toEqual({ ok: true });
  });

  test("does not exist without the option", async ({ onTestFinished }) => {
    const keyPrefix = prefix();
    const backend = open({ ...(target && { target }), keyPrefix });
    onTestFinished(() => backend.close());
    const { lockId, expiresAtMs, fence } = await backend.acquire({ key: "k", ttlMs: 30_000 });
    const acquiredAtMs = expiresAtMs - 30_000;
    expect(await redis.get(`${keyPrefix}:k`)).toBe(
      JSON.stringify({ lockId, expiresAtMs, acquiredAtMs, key: "k", fence }),
    );
  });
});

test("a client with only eval() gets another argument only if there is a label", async () => {
  const calls = [];
  const client = {
    eval: (script, keys, ...args) => {
      calls.push(args.slice(keys));
      return redis.eval(script, keys, ...args);
    },
  };
  for (const holderLabel of [undefined, "web-1:42"]) {
    const backend = open({ target: client, keyPrefix: prefix(), holderLabel });
    await backend.acquire({ key: "k", ttlMs: 30_000 });
    await backend.close();
  }
  expect(calls.map((args) => args.length)).toEqual([5, 6]);
  expect(calls[1][5]).toBe("web-1:42");
});
