// What the handle of a single acquire knows of its lock.

import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { LockError } from "../fixtures/api.js";
import { NOISE_MS, aborted } from "../fixtures/wait.js";

const GRAIN_MS = 20;

function expectLost(error) {
  expect(error).toBeInstanceOf(LockError);
  expect(error.code).toBe("LockLost");
}

export function watching(t) {
  // A custom backend decides itself what its results have.
  if (!t.native) return;

  describe.concurrent("handles: signal, isHeld and throwIfLost", () => {
    test("isHeld is true until the release", async () => {
      const backend = await t.backend();
      const held = await backend.acquire({ key: t.key(), ttlMs: 60_000 });
      expect(held.isHeld()).toBe(true);
      expect(held.isHeld(50_000)).toBe(true);
      expect(held.isHeld(60_000)).toBe(false);
      expect(held.throwIfLost()).toBeUndefined();
      expect(held.signal).toBeInstanceOf(AbortSignal);
      expect(held.signal).toBe(held.signal);
      expect(held.signal.aborted).toBe(false);
      await held.release();
      expect(held.isHeld()).toBe(false);
      expect(held.throwIfLost).toThrow(expect.objectContaining({ code: "LockLost" }));
    });

    test("the signal aborts when the lock's time is over, not before and not much later", async () => {
      const backend = await t.backend();
      const askedAt = performance.now();
      const held = await backend.acquire({ key: t.key(), ttlMs: 400 });
      expectLost(await aborted(held.signal));
      const took = performance.now() - askedAt;
      expect(took).toBeGreaterThanOrEqual(400 - GRAIN_MS);
      expect(took).toBeLessThan(400 + NOISE_MS);
      expect(held.isHeld()).toBe(false);
      expect(held.throwIfLost).toThrow(expect.objectContaining({ code: "LockLost" }));
    });

    test("a signal that is read too late is already aborted", async () => {
      const backend = await t.backend();
      const held = await backend.acquire({ key: t.key(), ttlMs: 100 });
      await sleep(150);
      expect(held.isHeld()).toBe(false);
      expectLost(held.signal.reason);
    });

    test("extend moves the end, in both directions", async () => {
      const backend = await t.backend();
      const held = await backend.acquire({ key: t.key(), ttlMs: 1_500 });
      const { signal } = held;
      expect((await held.extend(10_000)).ok).toBe(true);
      expect(held.isHeld(8_000)).toBe(true);
      await sleep(1_600);
      expect(signal.aborted).toBe(false);
      const shortenedAt = performance.now();
      expect((await held.extend(300)).ok).toBe(true);
      expectLost(await aborted(signal));
      expect(performance.now() - shortenedAt).toBeLessThan(300 + NOISE_MS);
    });

    test("a refused acquire was never held", async () => {
      const backend = await t.backend();
      const key = t.key();
      const holder = await backend.acquire({ key, ttlMs: 60_000 });
      const refused = await backend.acquire({ key, ttlMs: 60_000 });
      expect(refused.isHeld()).toBe(false);
      expectLost(refused.signal.reason);
      expect(refused.throwIfLost).toThrow(expect.objectContaining({ code: "LockLost" }));
      await holder.release();
    });

    test("methods can be destructured", async () => {
      const backend = await t.backend();
      const { isHeld, throwIfLost, signal, release } = await backend.acquire({
        key: t.key(),
        ttlMs: 60_000,
      });
      expect(isHeld()).toBe(true);
      throwIfLost();
      expect(signal.aborted).toBe(false);
      await release();
      expect(isHeld()).toBe(false);
    });
  });
}
