import { describe, expect, test } from "vitest";
import { LockError, TIME_TOLERANCE_MS, lock, owns } from "../fixtures/api.js";
import { NOISE_MS, aborted, untilFree, untilTime } from "../fixtures/wait.js";

function expectLost(reason) {
  expect(reason).toBeInstanceOf(LockError);
  expect(reason.code).toBe("LockLost");
}

export function lockLoss(t) {
  // The tests mostly wait for the clock, so together they take as long as the longest of them.
  describe.concurrent("lock(): keeping and losing the lock", () => {
    test("autoExtend keeps the lock beyond its ttl", async () => {
      const backend = await t.backend();
      const key = t.key();
      // The ttl is long enough for a machine that is suspended for a while.
      await lock(
        backend,
        async ({ lockId, fence, expiresAtMs, signal }) => {
          await untilTime(expiresAtMs + TIME_TOLERANCE_MS + 200);
          expect(await owns(backend, lockId)).toBe(true);
          const info = await backend.lookup({ key });
          expect(info.fence).toBe(fence);
          expect(info.expiresAtMs).toBeGreaterThan(expiresAtMs);
          expect(signal.aborted).toBe(false);
        },
        { key, ttlMs: 4_000, autoExtend: true },
      );
      expect(await backend.isLocked({ key })).toBe(false);
    }, 60_000);

    test("autoExtend ends with the function, and nothing keeps the lock afterwards", async () => {
      const backend = await t.backend();
      const key = t.key();
      let id;
      await lock(backend, ({ lockId }) => void (id = lockId), {
        key,
        ttlMs: 100,
        autoExtend: true,
      });
      const next = await backend.acquire({ key, ttlMs: 1 });
      expect(next.ok).toBe(true);
      await untilFree(backend, key);
      expect(await owns(backend, id)).toBe(false);
    });

    test("context.signal aborts with LockLost if the lock expires while the function runs", async () => {
      const backend = await t.backend();
      const key = t.key();
      const askedAt = performance.now();
      const outcome = await lock(
        backend,
        async ({ signal }) => {
          expectLost(await aborted(signal));
          const heldFor = performance.now() - askedAt;
          expect(heldFor).toBeGreaterThanOrEqual(290);
          expect(heldFor).toBeLessThan(300 + NOISE_MS);
          return "finished anyway";
        },
        { key, ttlMs: 300, autoExtend: false },
      );
      expect(outcome).toBe("finished anyway");
      await untilFree(backend, key);
    });

    test("an error that the function throws because of the loss is passed on", async () => {
      const backend = await t.backend();
      const outcome = lock(
        backend,
        async ({ signal }) => {
          await aborted(signal);
          signal.throwIfAborted();
        },
        { key: t.key(), ttlMs: 200, autoExtend: false },
      );
      await expect(outcome).rejects.toMatchObject({ name: "LockError", code: "LockLost" });
    });

    if (t.native) {
      test("a function that extends its lock itself does not lose it", async () => {
        const backend = await t.backend();
        const key = t.key();
        await lock(
          backend,
          async (context) => {
            const { lockId, signal, expiresAtMs } = context;
            const extended = await backend.extend({ lockId, ttlMs: 60_000 });
            await untilTime(expiresAtMs + TIME_TOLERANCE_MS);
            expect(signal.aborted).toBe(false);
            expect(context.expiresAtMs).toBe(extended.expiresAtMs);
            expect(await owns(backend, lockId)).toBe(true);
          },
          // The time is long enough to reach the extend on a machine that is suspended for a while.
          { key, ttlMs: 3_000 },
        );
      });
    }

    test("autoExtend notices that the lock was released elsewhere", async () => {
      const backend = await t.backend();
      const key = t.key();
      const other = t.shared ? await t.another() : backend;
      await lock(
        backend,
        async ({ lockId, signal }) => {
          const takenAt = performance.now();
          await other.release({ lockId });
          expectLost(await aborted(signal));
          // The next heartbeat notices it. There are three in each ttl.
          expect(performance.now() - takenAt).toBeLessThan(2_000 + NOISE_MS);
        },
        { key, ttlMs: 6_000, autoExtend: true },
      );
    });

    test("the loss of a lock does not affect the next holder's", async () => {
      const backend = await t.backend();
      const key = t.key();
      let next;
      await lock(
        backend,
        async ({ signal }) => {
          await aborted(signal);
          await untilFree(backend, key);
          next = await backend.acquire({ key, ttlMs: 60_000 });
        },
        { key, ttlMs: 200, autoExtend: false },
      );
      expect((await backend.lookup({ key })).fence).toBe(next.fence);
      expect((await next.release()).ok).toBe(true);
    });
  });
}
