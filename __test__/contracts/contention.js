import { describe, expect, test } from "vitest";

export function contention(t) {
  describe("contention and ownership", () => {
    test("a held key is refused, also to its holder, and the lock stays as it was", async () => {
      const backend = await t.backend();
      const key = t.key();
      const lock = await backend.acquire({ key, ttlMs: 60_000 });
      const before = await backend.lookup({ key });
      for (let attempt = 0; attempt < 3; attempt++) {
        const refused = await backend.acquire({ key, ttlMs: 1 });
        expect(refused.ok).toBe(false);
        expect(refused.reason).toBe("locked");
      }
      expect(await backend.lookup({ key })).toEqual(before);
      expect((await lock.release()).ok).toBe(true);
    });

    test("keys do not disturb each other", async () => {
      const backend = await t.backend();
      const keys = Array.from({ length: 20 }, () => t.key());
      const locks = await Promise.all(keys.map((key) => backend.acquire({ key, ttlMs: 60_000 })));
      expect(locks.every((lock) => lock.ok)).toBe(true);
      await locks[0].release();
      const held = await Promise.all(keys.map((key) => backend.isLocked({ key })));
      expect(held).toEqual(keys.map((_, index) => index > 0));
      await Promise.all(locks.map((lock) => lock.release()));
    });

    test("of many acquires at once, exactly one succeeds", async () => {
      const backend = await t.backend();
      const key = t.key();
      const results = await Promise.all(
        Array.from({ length: 50 }, () => backend.acquire({ key, ttlMs: 60_000 })),
      );
      const winners = results.filter((result) => result.ok);
      expect(winners).toHaveLength(1);
      expect(results.filter((result) => result.reason === "locked")).toHaveLength(49);
      await winners[0].release();
    });

    test("the id of an earlier lock has no power over the next one", async () => {
      const backend = await t.backend();
      const key = t.key();
      const first = await backend.acquire({ key, ttlMs: 60_000 });
      await first.release();
      const second = await backend.acquire({ key, ttlMs: 60_000 });
      expect((await backend.release({ lockId: first.lockId })).ok).toBe(false);
      expect((await backend.extend({ lockId: first.lockId, ttlMs: 1 })).ok).toBe(false);
      expect(await backend.lookup({ lockId: first.lockId })).toBeNull();
      expect((await backend.lookup({ key })).expiresAtMs).toBe(second.expiresAtMs);
      expect((await second.release()).ok).toBe(true);
    });

    test("a lock id belongs to one key: releasing it frees only that one", async () => {
      const backend = await t.backend();
      const [a, b] = [t.key("a"), t.key("b")];
      const lockA = await backend.acquire({ key: a, ttlMs: 60_000 });
      const lockB = await backend.acquire({ key: b, ttlMs: 60_000 });
      await backend.release({ lockId: lockA.lockId });
      expect(await backend.isLocked({ key: a })).toBe(false);
      expect(await backend.isLocked({ key: b })).toBe(true);
      await lockB.release();
    });

    if (t.shared) {
      test("two backends on one namespace exclude each other", async () => {
        const one = await t.another();
        const two = await t.another();
        const key = t.key();
        const lock = await one.acquire({ key, ttlMs: 60_000 });
        expect((await two.acquire({ key, ttlMs: 60_000 })).reason).toBe("locked");
        expect(await two.isLocked({ key })).toBe(true);
        expect((await two.lookup({ lockId: lock.lockId })).fence).toBe(lock.fence);
        expect((await two.extend({ lockId: lock.lockId, ttlMs: 90_000 })).ok).toBe(true);
        expect((await two.release({ lockId: lock.lockId })).ok).toBe(true);
        expect((await one.release({ lockId: lock.lockId })).ok).toBe(false);
        const next = await two.acquire({ key, ttlMs: 60_000 });
        expect(next.fence > lock.fence).toBe(true);
        await next.release();
      });
    }

    test("two namespaces do not see each other", async () => {
      const one = await t.isolated();
      const two = await t.isolated();
      const key = t.key();
      const first = await one.acquire({ key, ttlMs: 60_000 });
      const second = await two.acquire({ key, ttlMs: 60_000 });
      expect(second.ok).toBe(true);
      expect((await two.release({ lockId: first.lockId })).ok).toBe(false);
      expect(await one.isLocked({ key })).toBe(true);
      expect(second.fence).toBe(first.fence);
    });
  });
}
