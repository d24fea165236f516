// How long a lock is held: certainly (isHeld), at most (maxHoldMs) and at least (minHoldMs).

import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { LockError, hold, lock } from "../fixtures/api.js";
import { ENDING_FORMS, FORMS } from "../fixtures/forms.js";
import {
  NOISE_MS,
  aborted,
  deferred,
  turn,
  until,
  untilFree,
  watchUntilFree,
} from "../fixtures/wait.js";
import { rejection } from "./setup.js";

// By how much another clock of this machine, or that of a server, may differ from ours.
const GRAIN_MS = 20;

function expectLost(error) {
  expect(error).toBeInstanceOf(LockError);
  expect(error.code).toBe("LockLost");
}

export function holding(t) {
  // The tests mostly wait for the clock, so together they take as long as the longest of them.
  describe.concurrent("isHeld", () => {
    test("becomes false before another holder can acquire the lock", async () => {
      const backend = await t.backend();
      const key = t.key();
      await lock(
        backend,
        async ({ isHeld, signal }) => {
          const next = await until(async () => {
            const granted = await backend.acquire({ key, ttlMs: 60_000 });
            return granted.ok && granted;
          });
          expect(isHeld()).toBe(false);
          expectLost(await aborted(signal));
          await next.release();
        },
        { key, ttlMs: 300 },
      );
    });

    test("counts from before the request, and continues after extend", async () => {
      const backend = await t.backend();
      const askedAt = performance.now();
      const key = t.key();
      await lock(
        backend,
        async ({ isHeld, extend }) => {
          const left = () => askedAt + 10_000 - performance.now();
          expect(isHeld(left() + GRAIN_MS)).toBe(false);
          expect(isHeld(left() - NOISE_MS)).toBe(true);
          await extend(30_000);
          expect(isHeld(25_000)).toBe(true);
        },
        { key, ttlMs: 10_000 },
      );
    });

    test("and the signal take a shorter ttl of extend into account", async () => {
      const backend = await t.backend();
      await lock(
        backend,
        async ({ isHeld, signal, extend }) => {
          expect(signal.aborted).toBe(false);
          const shortenedAt = performance.now();
          expect((await extend(300)).ok).toBe(true);
          expect(isHeld(400)).toBe(false);
          expectLost(await aborted(signal));
          expect(isHeld()).toBe(false);
          expect(performance.now() - shortenedAt).toBeLessThan(300 + NOISE_MS);
        },
        { key: t.key(), ttlMs: 8_000 },
      );
    });
  });

  describe.concurrent("maxHoldMs", () => {
    test.each(ENDING_FORMS)(
      "%s: the lock is given up, and free long before its ttl",
      async (form) => {
        const backend = await t.backend();
        const key = t.key();
        const askedAt = performance.now();
        const config = { key, ttlMs: 60_000, autoExtend: true, maxHoldMs: 600 };
        await FORMS[form](backend, config, async ({ signal, isHeld }) => {
          expectLost(await aborted(signal));
          const heldFor = performance.now() - askedAt;
          expect(heldFor).toBeGreaterThanOrEqual(600 - GRAIN_MS);
          expect(heldFor).toBeLessThan(600 + NOISE_MS);
          expect(isHeld()).toBe(false);
          await untilFree(backend, key);
          expect(performance.now() - askedAt).toBeLessThan(600 + 2 * NOISE_MS);
        });
      },
    );

    test("with throwIfLost it rejects", async () => {
      const backend = await t.backend();
      const config = { key: t.key(), autoExtend: true, maxHoldMs: 200, throwIfLost: true };
      expectLost(await rejection(lock(backend, ({ signal }) => aborted(signal), config)));
    });

    test("changes nothing if the work is done sooner", async () => {
      const backend = await t.backend();
      const key = t.key();
      const config = { key, autoExtend: true, maxHoldMs: 20_000, throwIfLost: true };
      expect(await lock(backend, ({ signal }) => signal.aborted, config)).toBe(false);
      expect(await backend.isLocked({ key })).toBe(false);
    });
  });

  describe.concurrent("minHoldMs", () => {
    test.each(ENDING_FORMS)(
      "%s: the lock stays for the remaining time, and not longer",
      async (form) => {
        const backend = await t.backend();
        const key = t.key();
        const minHoldMs = 700;
        const askedAt = performance.now();
        const config = { key, ttlMs: 60_000, minHoldMs };
        let enteredAt;
        await FORMS[form](backend, config, () => void (enteredAt = performance.now()));
        // The caller does not wait for the remaining time.
        const endedAt = performance.now();
        const info = await backend.lookup({ key });
        if (endedAt < askedAt + minHoldMs) {
          expect(info).not.toBeNull();
          expect(info.expiresAtMs - info.acquiredAtMs).toBeLessThan(60_000);
        }
        const { lastHeldAt, freeAt } = await watchUntilFree(backend, key);
        expect(freeAt).toBeGreaterThanOrEqual(askedAt + minHoldMs - GRAIN_MS);
        // The store counts the remaining time from the request, which it receives before the form returns.
        const toldLate = endedAt - enteredAt;
        expect(lastHeldAt).toBeLessThan(
          enteredAt + minHoldMs + toldLate + t.toleranceMs + GRAIN_MS,
        );
      },
    );

    test("also applies after an error of the function", async () => {
      const backend = await t.backend();
      const key = t.key();
      const askedAt = performance.now();
      const failing = lock(backend, () => Promise.reject(new Error("no")), { key, minHoldMs: 500 });
      await rejection(failing);
      const { freeAt } = await watchUntilFree(backend, key);
      expect(freeAt).toBeGreaterThanOrEqual(askedAt + 500 - GRAIN_MS);
    });

    test("the lock is released at once if the work took longer", async () => {
      const backend = await t.backend();
      const key = t.key();
      await lock(backend, () => sleep(350), {
        key,
        ttlMs: 60_000,
        minHoldMs: 300,
      });
      expect(await backend.isLocked({ key })).toBe(false);
    });

    test("an extension that arrives after the release does not shorten it", async () => {
      const backend = await t.isolated();
      const key = t.key();
      const minHoldMs = 60_000;
      const { extend } = backend;
      const gate = deferred();
      let asked = 0;
      backend.extend = async (opts) => {
        asked += 1;
        if (asked === 1) await gate.promise;
        return extend(opts);
      };
      const held = await hold(backend, { key, ttlMs: 30_000, minHoldMs });
      const extending = held.extend(10_000);
      await until(() => asked === 1, "the extension to be on its way");
      const releasing = held.release();
      for (let i = 0; i < 10; i++) await turn();
      gate.resolve();
      await Promise.all([extending, releasing]);
      expect((await releasing).ok).toBe(true);
      expect(asked).toBe(2);
      const info = await backend.lookup({ key });
      expect(info.expiresAtMs - info.acquiredAtMs).toBeGreaterThan(minHoldMs - NOISE_MS);
    });

    // These are heartbeats of the engine. If the store answers slowly, many of them are in
    // flight when the work ends.
    test("a heartbeat in flight does not shorten it", async () => {
      const backend = await t.backend();
      const [ttlMs, minHoldMs] = [1_500, 60_000];
      const ending = async (number) => {
        const key = t.key();
        const held = await hold(backend, { key, ttlMs, minHoldMs, autoExtend: true });
        await sleep(ttlMs / 3 - 20 + number / 5);
        const { ok } = await held.release();
        // On a busy machine the lock may be lost before that.
        if (!ok) return minHoldMs;
        const info = await backend.lookup({ key });
        return info === null ? 0 : info.expiresAtMs - info.acquiredAtMs;
      };
      const kept = await Promise.all(Array.from({ length: 200 }, (_, number) => ending(number)));
      expect(Math.min(...kept)).toBeGreaterThan(minHoldMs - NOISE_MS);
    });

    test("can be longer than the ttl", async () => {
      const backend = await t.backend();
      const key = t.key();
      const askedAt = performance.now();
      await lock(backend, () => {}, { key, ttlMs: 500, minHoldMs: 2_500 });
      const { freeAt } = await watchUntilFree(backend, key);
      expect(freeAt).toBeGreaterThanOrEqual(askedAt + 2_500 - GRAIN_MS);
    });
  });
}
