import { describe, expect, test } from "vitest";
import { TIME_TOLERANCE_MS } from "../fixtures/api.js";
import { until, untilFree, untilTime, watchUntilFree } from "../fixtures/wait.js";

// A server's clock has a coarser grain than ours.
const CLOCK_GRAIN_MS = 10;

export function expiry(t) {
  // Each test mostly waits for the clock: together they take as long as the longest of them.
  describe.concurrent("expiry", () => {
    test("a lock is gone after its ttl and the tolerance, and never before its ttl", async () => {
      const backend = await t.backend();
      const key = t.key();
      const askedAt = performance.now();
      const lock = await backend.acquire({ key, ttlMs: 400 });
      const grantedAt = performance.now();
      const { lastHeldAt, freeAt } = await watchUntilFree(backend, key);
      expect(freeAt - askedAt).toBeGreaterThanOrEqual(400 - CLOCK_GRAIN_MS);
      expect(lastHeldAt - grantedAt).toBeLessThan(400 + t.toleranceMs + CLOCK_GRAIN_MS);
      expect(await backend.lookup({ key })).toBeNull();
      expect(await backend.lookup({ lockId: lock.lockId })).toBeNull();
    });

    test("acquire is refused until the lock is gone, then succeeds", async () => {
      const backend = await t.backend();
      const key = t.key();
      const askedAt = performance.now();
      const first = await backend.acquire({ key, ttlMs: 400 });
      const grantedAt = performance.now();
      let refusedAt = grantedAt;
      const second = await until(async () => {
        const triedAt = performance.now();
        const lock = await backend.acquire({ key, ttlMs: 60_000 });
        if (!lock.ok) refusedAt = triedAt;
        return lock.ok && lock;
      });
      expect(performance.now() - askedAt).toBeGreaterThanOrEqual(400 - CLOCK_GRAIN_MS);
      expect(refusedAt - grantedAt).toBeLessThan(400 + t.toleranceMs + CLOCK_GRAIN_MS);
      expect(second.fence > first.fence).toBe(true);
      await second.release();
    });

    test("an expired lock can be neither extended nor released", async () => {
      const backend = await t.backend();
      const key = t.key();
      const lock = await backend.acquire({ key, ttlMs: 1 });
      await untilFree(backend, key);
      expect((await backend.extend({ lockId: lock.lockId, ttlMs: 60_000 })).ok).toBe(false);
      expect(await backend.isLocked({ key })).toBe(false);
      expect((await backend.release({ lockId: lock.lockId })).ok).toBe(false);
      expect((await lock.release()).ok).toBe(false);
    });

    test("the owner of an expired lock cannot touch the next owner's", async () => {
      const backend = await t.backend();
      const key = t.key();
      const old = await backend.acquire({ key, ttlMs: 1 });
      await untilFree(backend, key);
      const next = await backend.acquire({ key, ttlMs: 60_000 });
      expect((await backend.extend({ lockId: old.lockId, ttlMs: 1 })).ok).toBe(false);
      expect((await backend.release({ lockId: old.lockId })).ok).toBe(false);
      expect(await backend.lookup({ lockId: old.lockId })).toBeNull();
      expect((await backend.lookup({ key })).expiresAtMs).toBe(next.expiresAtMs);
      expect((await next.release()).ok).toBe(true);
    });

    test("extend keeps a lock alive beyond its first ttl", async () => {
      const backend = await t.backend();
      const key = t.key();
      const lock = await backend.acquire({ key, ttlMs: 1_000 });
      expect((await lock.extend(60_000)).ok).toBe(true);
      await untilTime(lock.expiresAtMs + TIME_TOLERANCE_MS + CLOCK_GRAIN_MS);
      expect(await backend.isLocked({ key })).toBe(true);
      expect((await backend.lookup({ lockId: lock.lockId })).fence).toBe(lock.fence);
      expect((await lock.release()).ok).toBe(true);
    });

    test("extend with a shorter ttl brings the end nearer", async () => {
      const backend = await t.backend();
      const key = t.key();
      const lock = await backend.acquire({ key, ttlMs: 600_000 });
      expect((await lock.extend(1)).ok).toBe(true);
      const extendedAt = performance.now();
      const { lastHeldAt } = await watchUntilFree(backend, key);
      expect(lastHeldAt - extendedAt).toBeLessThan(t.toleranceMs + CLOCK_GRAIN_MS);
      expect((await lock.release()).ok).toBe(false);
    });

    test("locks of a short ttl are gone in any number", async () => {
      const backend = await t.backend();
      const keys = Array.from({ length: 100 }, () => t.key());
      await Promise.all(keys.map((key) => backend.acquire({ key, ttlMs: 1 })));
      for (const key of keys) await untilFree(backend, key);
    });

    if (!t.removedAtTtl) {
      test("a lock stays live for the tolerance after expiresAtMs", async () => {
        const backend = await t.backend();
        const key = t.key();
        // Proven by a try that ended within the tolerance; a machine that was busy just then tries again.
        const proof = await until(async () => {
          const lock = await backend.acquire({ key, ttlMs: 1 });
          if (!lock.ok) return null;
          await untilTime(lock.expiresAtMs + CLOCK_GRAIN_MS);
          const seen = {
            locked: await backend.isLocked({ key }),
            info: await backend.lookup({ lockId: lock.lockId }),
            extended: await lock.extend(1),
          };
          const inTime = Date.now() < lock.expiresAtMs + TIME_TOLERANCE_MS - CLOCK_GRAIN_MS;
          return inTime && seen;
        }, "a try that ended within the tolerance");
        expect(proof.locked).toBe(true);
        expect(proof.info).not.toBeNull();
        expect(proof.extended.ok).toBe(true);
      });
    }
  });
}
