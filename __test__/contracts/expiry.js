import { describe, expect, test } from "vitest";
import { TIME_TOLERANCE_MS } from "../fixtures/api.js";
import { until, untilFree, untilTime } from "../fixtures/wait.js";

// A server's clock is coarser than ours.
const CLOCK_GRAIN_MS = 10;

export function expiry(t) {
  // The tests mostly wait for the clock, so together they take as long as the longest of them.
  describe.concurrent("expiry", () => {
    test("any number of locks with a short ttl expire", async () => {
      const backend = await t.backend();
      const keys = Array.from({ length: 100 }, () => t.key());
      await Promise.all(keys.map((key) => backend.acquire({ key, ttlMs: 1 })));
      for (const key of keys) await untilFree(backend, key);
    });

    if (!t.removedAtTtl) {
      test("a lock stays live for the tolerance after expiresAtMs", async () => {
        const backend = await t.backend();
        const key = t.key();
        // Proven by an attempt that ended within the tolerance. On a busy machine the attempt is repeated.
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
