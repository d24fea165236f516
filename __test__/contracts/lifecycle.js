import { describe, expect, test } from "vitest";
import { generateLockId, hasFence } from "../fixtures/api.js";

export function lifecycle(t) {
  describe("lifecycle", () => {
    test("acquire, look, release, acquire again", async () => {
      const backend = await t.backend();
      const key = t.key();
      expect(await backend.isLocked({ key })).toBe(false);

      const lock = await backend.acquire({ key, ttlMs: 60_000 });
      expect(lock.ok).toBe(true);
      expect(lock.lockId).toMatch(/^[A-Za-z0-9_-]{22}$/);
      expect(Number.isSafeInteger(lock.expiresAtMs)).toBe(true);
      expect(hasFence(lock)).toBe(true);
      expect(await backend.isLocked({ key })).toBe(true);

      expect((await backend.release({ lockId: lock.lockId })).ok).toBe(true);
      expect(await backend.isLocked({ key })).toBe(false);

      const next = await backend.acquire({ key, ttlMs: 60_000 });
      expect(next.ok).toBe(true);
      expect(next.lockId).not.toBe(lock.lockId);
      await next.release();
    });

    test("every bit of a lockId is random", async () => {
      const backend = await t.backend();
      // A bit that is the same in 64 of them is the same in all.
      const locks = await Promise.all(
        Array.from({ length: 64 }, () => backend.acquire({ key: t.key(), ttlMs: 60_000 })),
      );
      const ids = locks.map(({ lockId }) => Buffer.from(lockId, "base64url"));
      const ever = (combine) =>
        Buffer.from(ids[0].map((_, index) => ids.map((id) => id[index]).reduce(combine)));
      expect(ever((a, b) => a | b).toString("hex")).toBe("ff".repeat(16));
      expect(ever((a, b) => a & b).toString("hex")).toBe("00".repeat(16));
      await Promise.all(locks.map((lock) => lock.release()));
    });

    test("a result has exactly the documented properties", async () => {
      const backend = await t.backend();
      const key = t.key();
      const lock = await backend.acquire({ key, ttlMs: 60_000 });
      const documented = ["ok", "lockId", "expiresAtMs", "fence", "release", "extend"];
      if (t.native) documented.push("isHeld", "throwIfLost", "signal");
      expect(documented.filter((name) => !(name in lock))).toEqual([]);
      expect(Object.keys(lock).filter((name) => !documented.includes(name))).toEqual([]);
      expect(typeof lock[Symbol.asyncDispose]).toBe("function");
      const refused = await backend.acquire({ key, ttlMs: 60_000 });
      expect(refused.ok).toBe(false);
      expect(refused.reason).toBe("locked");
      expect(Object.keys(await lock.extend(60_000)).sort()).toEqual(["expiresAtMs", "ok"]);
      expect(Object.keys(await lock.release())).toEqual(["ok"]);
    });

    test("expiresAtMs is the backend's time plus ttlMs", async () => {
      const backend = await t.backend();
      const key = t.key();
      const lock = await backend.acquire({ key, ttlMs: 60_000 });
      const info = await backend.lookup({ key });
      expect(info.acquiredAtMs + 60_000).toBe(lock.expiresAtMs);
      expect(info.expiresAtMs).toBe(lock.expiresAtMs);
      await lock.release();
    });

    test("a lock id releases once, and never again", async () => {
      const backend = await t.backend();
      const { lockId } = await backend.acquire({ key: t.key(), ttlMs: 60_000 });
      expect((await backend.release({ lockId })).ok).toBe(true);
      expect((await backend.release({ lockId })).ok).toBe(false);
      expect((await backend.release({ lockId })).ok).toBe(false);
    });

    test("of many releases at once, exactly one succeeds", async () => {
      const backend = await t.backend();
      const { lockId } = await backend.acquire({ key: t.key(), ttlMs: 60_000 });
      const results = await Promise.all(
        Array.from({ length: 20 }, () => backend.release({ lockId })),
      );
      expect(results.filter((result) => result.ok)).toHaveLength(1);
    });

    test("release and extend of an unknown lock do nothing", async () => {
      const backend = await t.backend();
      expect((await backend.release({ lockId: generateLockId() })).ok).toBe(false);
      expect((await backend.extend({ lockId: generateLockId(), ttlMs: 1000 })).ok).toBe(false);
    });

    test("extend replaces the ttl: it can lengthen and shorten", async () => {
      const backend = await t.backend();
      const key = t.key();
      const lock = await backend.acquire({ key, ttlMs: 60_000 });

      const longer = await backend.extend({ lockId: lock.lockId, ttlMs: 120_000 });
      expect(longer.ok).toBe(true);
      expect(longer.expiresAtMs).toBeGreaterThanOrEqual(lock.expiresAtMs + 60_000);
      expect((await backend.lookup({ key })).expiresAtMs).toBe(longer.expiresAtMs);

      const shorter = await backend.extend({ lockId: lock.lockId, ttlMs: 30_000 });
      expect(shorter.ok).toBe(true);
      expect(shorter.expiresAtMs).toBeLessThan(longer.expiresAtMs);
      expect((await backend.lookup({ key })).expiresAtMs).toBe(shorter.expiresAtMs);
      await lock.release();
    });

    test("extend keeps owner, fence and acquiredAtMs", async () => {
      const backend = await t.backend();
      const key = t.key();
      const lock = await backend.acquire({ key, ttlMs: 60_000 });
      const before = await backend.lookup({ key });
      const { expiresAtMs } = await lock.extend(90_000);
      expect(await backend.lookup({ key })).toEqual({ ...before, expiresAtMs });
      await lock.release();
    });

    test("extend of a released lock does not bring it back", async () => {
      const backend = await t.backend();
      const key = t.key();
      const lock = await backend.acquire({ key, ttlMs: 60_000 });
      await lock.release();
      expect((await backend.extend({ lockId: lock.lockId, ttlMs: 60_000 })).ok).toBe(false);
      expect(await backend.isLocked({ key })).toBe(false);
    });

    test("capabilities name the backend and cannot be changed", async () => {
      const { capabilities } = await t.backend();
      expect(capabilities.supportsFencing).toBe(true);
      expect(["server", "client"]).toContain(capabilities.timeAuthority);
      expect(capabilities.backend).toMatch(/^[a-z]+$/);
      expect(Object.isFrozen(capabilities)).toBe(true);
    });

    test("methods do not depend on this", async () => {
      const { acquire, release, extend, isLocked, lookup } = await t.backend();
      const key = t.key();
      const { lockId } = await acquire({ key, ttlMs: 60_000 });
      expect(await isLocked({ key })).toBe(true);
      expect((await lookup({ lockId })).lockIdHash).toBe((await lookup({ key })).lockIdHash);
      expect((await extend({ lockId, ttlMs: 60_000 })).ok).toBe(true);
      expect((await release({ lockId })).ok).toBe(true);
    });
  });
}
