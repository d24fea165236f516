// How long a lock is held: surely, at most, at least.

import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { LockError, lock, tryLock } from "../fixtures/api.js";
import { ENDING_FORMS, FORMS } from "../fixtures/forms.js";
import { NOISE_MS, aborted, block, until, untilFree, watchUntilFree } from "../fixtures/wait.js";
import { rejection } from "./setup.js";

// A clock of another kind, or of a server, may differ by that much from ours.
const GRAIN_MS = 20;

function expectLost(error) {
  expect(error).toBeInstanceOf(LockError);
  expect(error.code).toBe("LockLost");
}

export function holding(t) {
  describe("a lock that is lost before the function returned", () => {
    let warn;
    beforeEach(() => {
      warn = vi.spyOn(console, "warn").mockImplementation(() => {});
    });
    afterEach(() => {
      vi.restoreAllMocks();
      vi.unstubAllEnvs();
    });
    const outlive = async ({ signal }) => {
      await aborted(signal);
      return "done";
    };
    const RUNNING = [
      ["lock", lock, "done"],
      ["tryLock", tryLock, { ok: true, value: "done" }],
    ];

    test.each(RUNNING)("%s with throwIfLost rejects", async (_, form) => {
      const backend = await t.backend();
      const key = t.key();
      expectLost(await rejection(form(backend, outlive, { key, ttlMs: 100, throwIfLost: true })));
      expect(warn).not.toHaveBeenCalled();
      await untilFree(backend, key);
    });

    test.each(RUNNING)(
      "%s without it returns the value, and warns once",
      async (_, form, value) => {
        vi.stubEnv("NODE_ENV", "development");
        const backend = await t.backend();
        const key = t.key();
        let id;
        const use = (context) => ((id = context.lockId), outlive(context));
        expect(await form(backend, use, { key, ttlMs: 100 })).toEqual(value);
        expect(warn).toHaveBeenCalledTimes(1);
        const [text] = warn.mock.calls[0];
        expect(text).toMatch(/^\[SyncGuard\] .*\b\d+ ms\b.*ttlMs 100\b/);
        expect(text).not.toContain(key);
        expect(text).not.toContain(id);
      },
    );

    test("no warning in production", async () => {
      vi.stubEnv("NODE_ENV", "production");
      expect(await lock(await t.backend(), outlive, { key: t.key(), ttlMs: 100 })).toBe("done");
      expect(warn).not.toHaveBeenCalled();
    });

    test("an error of the function wins", async () => {
      const mine = new Error("mine");
      const failing = async (context) => {
        await outlive(context);
        throw mine;
      };
      const config = { key: t.key(), ttlMs: 100, throwIfLost: true };
      expect(await rejection(lock(await t.backend(), failing, config))).toBe(mine);
      expect(warn).not.toHaveBeenCalled();
    });

    test("throwIfLost and a lock that is not lost: the value, no warning", async () => {
      const config = { key: t.key(), throwIfLost: true };
      expect(await lock(await t.backend(), () => "done", config)).toBe("done");
      expect(warn).not.toHaveBeenCalled();
    });

    test.each(ENDING_FORMS)(
      "%s: a busy thread learns of it in the moment it asks",
      async (form) => {
        const backend = await t.backend();
        await FORMS[form](backend, { key: t.key(), ttlMs: 600 }, ({ isHeld, throwIfLost }) => {
          expect(isHeld()).toBe(true);
          block(650);
          expect(isHeld()).toBe(false);
          expect(throwIfLost).toThrow(expect.objectContaining({ code: "LockLost" }));
        });
      },
    );
  });

  // Each test mostly waits for the clock: together they take as long as the longest of them.
  describe.concurrent("isHeld", () => {
    test("is false before anybody else can have the lock", async () => {
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
          expectLost(signal.reason);
          await next.release();
        },
        { key, ttlMs: 300 },
      ).catch(expectLost);
    });

    test("counts from before the lock was asked for, and goes on with extend", async () => {
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

    test("and the signal follow an extend with a shorter ttl", async () => {
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
        { key: t.key(), ttlMs: 60_000 },
      );
    });
  });

  describe.concurrent("maxHoldMs", () => {
    test.each(ENDING_FORMS)(
      "%s: then the lock is given up and free, long before its ttl",
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

    test("work that is done sooner is not touched by it", async () => {
      const backend = await t.backend();
      const key = t.key();
      const config = { key, autoExtend: true, maxHoldMs: 20_000, throwIfLost: true };
      expect(await lock(backend, ({ signal }) => signal.aborted, config)).toBe(false);
      expect(await backend.isLocked({ key })).toBe(false);
    });
  });

  describe.concurrent("minHoldMs", () => {
    test.each(ENDING_FORMS)("%s: the lock is kept for the rest, and not longer", async (form) => {
      const backend = await t.backend();
      const key = t.key();
      const minHoldMs = 700;
      const askedAt = performance.now();
      const config = { key, ttlMs: 60_000, minHoldMs };
      let enteredAt;
      await FORMS[form](backend, config, () => void (enteredAt = performance.now()));
      // The caller is not kept waiting for it.
      const endedAt = performance.now();
      const info = await backend.lookup({ key });
      if (endedAt < askedAt + minHoldMs) {
        expect(info).not.toBeNull();
        expect(info.expiresAtMs - info.acquiredAtMs).toBeLessThan(60_000);
      }
      const { lastHeldAt, freeAt } = await watchUntilFree(backend, key);
      expect(freeAt).toBeGreaterThanOrEqual(askedAt + minHoldMs - GRAIN_MS);
      expect(lastHeldAt).toBeLessThan(
        Math.max(enteredAt + minHoldMs, endedAt) + t.toleranceMs + GRAIN_MS,
      );
    });

    test("an error of the function changes nothing of it", async () => {
      const backend = await t.backend();
      const key = t.key();
      const askedAt = performance.now();
      const failing = lock(backend, () => Promise.reject(new Error("no")), { key, minHoldMs: 500 });
      await rejection(failing);
      const { freeAt } = await watchUntilFree(backend, key);
      expect(freeAt).toBeGreaterThanOrEqual(askedAt + 500 - GRAIN_MS);
    });

    test("work that took longer: free at once", async () => {
      const backend = await t.backend();
      const key = t.key();
      await lock(backend, () => new Promise((resolve) => setTimeout(resolve, 350)), {
        key,
        ttlMs: 60_000,
        minHoldMs: 300,
      });
      expect(await backend.isLocked({ key })).toBe(false);
    });

    test("longer than the ttl: the lock is kept all the same", async () => {
      const backend = await t.backend();
      const key = t.key();
      const askedAt = performance.now();
      await lock(backend, () => {}, { key, ttlMs: 500, minHoldMs: 2_500 });
      const { freeAt } = await watchUntilFree(backend, key);
      expect(freeAt).toBeGreaterThanOrEqual(askedAt + 2_500 - GRAIN_MS);
    });
  });
}
