// Any sequence of operations has the same results on the memory backend and on a model (a map).
// Time does not pass in these tests. The contract suite tests expiry.

import fc from "fast-check";
import { expect, test } from "vitest";
import { createMemoryBackend, generateLockId } from "../fixtures/api.js";

const KEYS = ["a", "b", "fence:a"];
const TTL_MS = 600_000;

/** Returns the expected result of each operation. The ids are those of the real backend. */
class Model {
  fences = new Map();
  held = new Map();

  acquire(key, lockId) {
    if (this.held.has(key)) return { ok: false };
    const fence = (this.fences.get(key) ?? 0) + 1;
    this.fences.set(key, fence);
    this.held.set(key, { lockId, fence });
    return { ok: true, fence };
  }
  keyOf(lockId) {
    return [...this.held].find(([, lock]) => lock.lockId === lockId)?.[0];
  }
  release(lockId) {
    return this.held.delete(this.keyOf(lockId));
  }
}

const operation = fc.record({
  type: fc.constantFrom("acquire", "acquire", "release", "handle", "extend", "isLocked", "lookup"),
  key: fc.constantFrom(...KEYS),
  // The number of a lock, counted from the last. A larger number stands for a lock that never existed.
  which: fc.nat(6),
});

test("results equal those of the model", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(operation, { minLength: 1, maxLength: 60 }), async (operations) => {
      const backend = createMemoryBackend();
      const model = new Model();
      const grants = [];
      for (const { type, key, which } of operations) {
        const grant = grants.at(-1 - which);
        const lockId = grant?.lockId ?? generateLockId();
        if (type === "acquire") {
          const result = await backend.acquire({ key, ttlMs: TTL_MS });
          const wanted = model.acquire(key, result.lockId);
          expect(result.ok).toBe(wanted.ok);
          if (result.ok) {
            expect(Number(result.fence)).toBe(wanted.fence);
            grants.push(result);
          }
        } else if (type === "release") {
          expect((await backend.release({ lockId })).ok).toBe(model.release(lockId));
        } else if (type === "handle" && grant) {
          // A handle releases at most once. A release by lockId does not count as the handle's.
          const wanted = model.release(lockId);
          expect((await grant.release()).ok).toBe(wanted);
          expect((await grant.release()).ok).toBe(false);
        } else if (type === "extend") {
          const wanted = model.keyOf(lockId) !== undefined;
          expect((await backend.extend({ lockId, ttlMs: TTL_MS })).ok).toBe(wanted);
        } else if (type === "isLocked") {
          expect(await backend.isLocked({ key })).toBe(model.held.has(key));
        } else if (type === "lookup") {
          const byKey = await backend.lookup({ key });
          const byId = await backend.lookup({ lockId });
          expect(byKey && Number(byKey.fence)).toBe(model.held.get(key)?.fence ?? null);
          expect(byId !== null).toBe(model.keyOf(lockId) !== undefined);
        }
      }
      await backend.close();
    }),
    { numRuns: 500 },
  );
});
