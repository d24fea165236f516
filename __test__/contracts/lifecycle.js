import { describe, expect, test } from "vitest";
import { generateLockId, hasFence } from "../fixtures/api.js";

export function lifecycle(t) {
  describe("lifecycle", () => {
    test("a lock is acquired, looked up, released and acquired again", async () => {
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
      // A bit that is the same in 64 lockIds is surely not random.
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
