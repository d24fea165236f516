// Keys and stored values that an attacker chose.

import { afterAll, beforeEach, describe, expect, test } from "vitest";
import { rejection } from "../contracts/setup.js";
import { getByKeyRaw } from "../fixtures/api.js";
import { ioredis, open, prefix } from "./open.js";

const redis = ioredis();
afterAll(() => redis.disconnect());

const wrapper = { eval: (...args) => redis.eval(...args) };

describe.each([
  ["the native connection", undefined],
  ["a client's eval()", wrapper],
])("through %s", (_, target) => {
  let keyPrefix, backend;
  beforeEach(() => {
    keyPrefix = prefix();
    backend = open({ target, keyPrefix });
    return () => backend.close();
  });

  const counter = (key) => redis.get(`${keyPrefix}:fence:${keyPrefix}:${key}`);

  test("a key cannot name the fence counter of another", async () => {
    for (let round = 0; round < 3; round++) {
      await (await backend.acquire({ key: "x", ttlMs: 30_000 })).release();
    }
    const forged = `fence:${keyPrefix}:x`;
    const lock = await backend.acquire({ key: forged, ttlMs: 30_000 });
    expect(await counter("x")).toBe("3");
    expect(await getByKeyRaw(backend, forged)).toMatchObject({ key: forged, fence: lock.fence });
    await lock.release();
    expect(await counter("x")).toBe("3");
    expect((await backend.acquire({ key: "x", ttlMs: 30_000 })).fence).toBe("000000000000004");
  });

  test("a key cannot name the index of another", async () => {
    const victim = await backend.acquire({ key: "x", ttlMs: 30_000 });
    const forged = `id:${victim.lockId}`;
    const lock = await backend.acquire({ key: forged, ttlMs: 30_000 });
    expect(lock.ok).toBe(true);
    await lock.release();
    expect(await victim.release()).toEqual({ ok: true });
  });

  describe("with a prefix inside of another", () => {
    let inner;
    beforeEach(() => {
      inner = open({ target, keyPrefix: `${keyPrefix}:billing` });
      return () => inner.close();
    });

    test("a key cannot name a fence counter of the inner one", async () => {
      await (await inner.acquire({ key: "payout", ttlMs: 30_000 })).release();
      const forged = `billing:fence:${keyPrefix}:billing:payout`;
      const lock = await backend.acquire({ key: forged, ttlMs: 30_000 });
      expect(lock).toMatchObject({ ok: true, fence: "000000000000001" });
      expect(await getByKeyRaw(backend, forged)).toMatchObject({ key: forged });
      const next = await inner.acquire({ key: "payout", ttlMs: 30_000 });
      expect(next).toMatchObject({ ok: true, fence: "000000000000002" });
      expect(await lock.release()).toEqual({ ok: true });
      expect(await next.release()).toEqual({ ok: true });
      expect((await inner.acquire({ key: "payout", ttlMs: 1 })).fence).toBe("000000000000003");
    });

    test("a key cannot name an index of the inner one", async () => {
      const victim = await inner.acquire({ key: "payout", ttlMs: 30_000 });
      const forged = `billing:id:${victim.lockId}`;
      const lock = await backend.acquire({ key: forged, ttlMs: 30_000 });
      expect(lock.ok).toBe(true);
      expect(await lock.release()).toEqual({ ok: true });
      expect(await victim.release()).toEqual({ ok: true });
    });

    test("a key cannot name an index of the outer one", async () => {
      const odd = open({ target, keyPrefix: `${keyPrefix}:id` });
      const victim = await backend.acquire({ key: "x", ttlMs: 30_000 });
      const lock = await odd.acquire({ key: victim.lockId, ttlMs: 30_000 });
      expect(lock.ok).toBe(true);
      expect(await lock.release()).toEqual({ ok: true });
      expect(await victim.release()).toEqual({ ok: true });
      await odd.close();
    });

    test("a name that both prefixes share is one lock", async () => {
      const lock = await backend.acquire({ key: "billing:payout", ttlMs: 30_000 });
      expect(lock.ok).toBe(true);
      expect((await inner.acquire({ key: "payout", ttlMs: 30_000 })).ok).toBe(false);
    });
  });

  test.each([
    ["line breaks", "a\r\nDEL x\r\n*1\r\n"],
    ["NUL", "a\0b"],
    ["braces", "}{tag}:{"],
    ["a closing brace first", "}x{"],
    ["wildcards", "*?[a-z]\\"],
    ["percent signs", "%1%s%d%%"],
    ["a field of the stored data", '","lockId":"AAAAAAAAAAAAAAAAAAAAAA","expiresAtMs":1,"x":"'],
    ["the end of the stored data", '"}'],
    ["DEL and other control characters", "\u007f\u0001\u001f\u2028\u2029"],
    ["a byte order mark", "\ufeffkey"],
  ])("a key with %s is only a key", async (_, key) => {
    const lock = await backend.acquire({ key, ttlMs: 30_000 });
    expect((await backend.acquire({ key, ttlMs: 30_000 })).ok).toBe(false);
    expect(await getByKeyRaw(backend, key)).toMatchObject({ key, lockId: lock.lockId });
    expect((await lock.extend(60_000)).ok).toBe(true);
    expect(await getByKeyRaw(backend, key)).toMatchObject({ key, fence: lock.fence });
    expect(await lock.release()).toEqual({ ok: true });
    expect(await redis.keys(`${keyPrefix}:*`)).toHaveLength(1);
  });

  const operations = (key, lockId) => ({
    acquire: () => backend.acquire({ key, ttlMs: 1000 }),
    release: () => backend.release({ lockId }),
    extend: () => backend.extend({ lockId, ttlMs: 1000 }),
    isLocked: () => backend.isLocked({ key }),
    "lookup by key": () => backend.lookup({ key }),
    "lookup by lockId": () => backend.lookup({ lockId }),
  });

  test.each([
    ["garbage", (key) => redis.set(key, "garbage"), "Internal"],
    ["a number", (key) => redis.set(key, "7"), "Internal"],
    ["another JSON value", (key) => redis.set(key, "[1]"), "Internal"],
    ["a list", (key) => redis.del(key).then(() => redis.rpush(key, "a")), "InvalidArgument"],
    ["a hash", (key) => redis.del(key).then(() => redis.hset(key, "a", 1)), "InvalidArgument"],
  ])("a lock replaced by %s is reported and left alone", async (_, replace, code) => {
    const { lockId } = await backend.acquire({ key: "x", ttlMs: 30_000 });
    await replace(`${keyPrefix}:x`);
    const before = await redis.dump(`${keyPrefix}:x`);
    for (const operation of Object.values(operations("x", lockId))) {
      const error = await rejection(operation());
      expect(error).toMatchObject({ name: "LockError", code });
      expect(`${error.message} ${error.cause?.message}`).not.toContain(lockId);
      expect(error.message).not.toContain(keyPrefix);
    }
    expect(await redis.dump(`${keyPrefix}:x`)).toBe(before);
    expect(await redis.exists(`${keyPrefix}:id:${lockId}`)).toBe(1);
    expect(await counter("x")).toBe("1");
  });

  test("an index that points at another lock gives no access to it", async () => {
    const victim = await backend.acquire({ key: "x", ttlMs: 30_000 });
    const thief = await backend.acquire({ key: "y", ttlMs: 30_000 });
    await redis.set(`${keyPrefix}:id:${thief.lockId}`, `${keyPrefix}:x`);
    const { lockId } = thief;
    expect(await backend.release({ lockId })).toEqual({ ok: false });
    expect(await backend.extend({ lockId, ttlMs: 1 })).toEqual({ ok: false });
    expect(await backend.lookup({ lockId })).toBe(null);
    expect(await getByKeyRaw(backend, "x")).toMatchObject({
      lockId: victim.lockId,
      expiresAtMs: victim.expiresAtMs,
    });
  });

  test("an exhausted counter refuses before anything is written", async () => {
    const key = `${keyPrefix}:fence:${keyPrefix}:x`;
    await redis.set(key, "900000000000000");
    expect(await rejection(backend.acquire({ key: "x", ttlMs: 1000 }))).toMatchObject({
      code: "Internal",
      message: expect.stringContaining("Fence counter overflow"),
    });
    expect(await redis.get(key)).toBe("900000000000000");
    expect(await redis.keys(`${keyPrefix}:*`)).toEqual([key]);
  });
});
