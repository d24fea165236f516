// lead(): leader election.

import { getEventListeners } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { LockError, TIME_TOLERANCE_MS, lead, owns } from "../fixtures/api.js";
import { OverlapChecker } from "../fixtures/overlap.js";
import { NOISE_MS, aborted, turn, until } from "../fixtures/wait.js";
import { rejection } from "./setup.js";

const PATIENT = { retryDelayMs: 5, backoff: "fixed" };

function expectLost(error) {
  expect(error).toBeInstanceOf(LockError);
  expect(error.code).toBe("LockLost");
}

export function leading(t) {
  // The tests mostly wait for the clock, so together they take as long as the longest of them.
  describe.concurrent("lead()", () => {
    test("keeps the lock beyond its ttl by default", async () => {
      const backend = await t.backend();
      const key = t.key();
      const ttlMs = 2_000;
      await lead(
        backend,
        async ({ lockId, signal, isHeld }) => {
          await sleep(ttlMs + TIME_TOLERANCE_MS + 200);
          expect(isHeld()).toBe(true);
          expect(signal.aborted).toBe(false);
          expect(await owns(backend, lockId)).toBe(true);
        },
        { key, ttlMs },
      );
      expect(await backend.isLocked({ key })).toBe(false);
    });

    test("waits longer than the limits of lock()", async () => {
      const backend = await t.backend();
      const key = t.key();
      const holder = await backend.acquire({ key, ttlMs: 600_000 });
      let leads = false;
      const leading = lead(backend, () => (leads = true), { key, acquisition: PATIENT });
      // lock() would time out after 5 s, and with this delay make its last attempt much earlier.
      await sleep(5_300);
      expect(leads).toBe(false);
      await holder.release();
      expect(await leading).toBe(true);
    });

    test("a leader that lost the lock is notified, and rejoins the election once fn has ended", async () => {
      const backend = await t.backend();
      const key = t.key();
      const terms = [];
      const outcome = await lead(
        backend,
        async ({ lockId, fence, signal, isHeld }) => {
          terms.push(fence);
          if (terms.length === 3) return "resigned";
          await backend.release({ lockId });
          expectLost(await aborted(signal));
          expect(isHeld()).toBe(false);
          // fn may end in two ways: it returns, or throws the signal's reason.
          if (terms.length === 2) signal.throwIfAborted();
        },
        { key, ttlMs: 900, acquisition: PATIENT },
      );
      expect(outcome).toBe("resigned");
      expect(terms).toEqual(["000000000000001", "000000000000002", "000000000000003"]);
      expect(await backend.isLocked({ key })).toBe(false);
    });

    test("fn is not called again while it still runs for a lost term", async () => {
      const backend = await t.backend();
      let running = 0;
      let terms = 0;
      await lead(
        backend,
        async ({ lockId, signal }) => {
          running += 1;
          expect(running).toBe(1);
          terms += 1;
          if (terms === 1) {
            await backend.release({ lockId });
            await aborted(signal);
            await sleep(300);
          }
          running -= 1;
        },
        { key: t.key(), ttlMs: 900, acquisition: PATIENT },
      );
      expect(terms).toBe(2);
    });

    test("an error of fn ends lead(), even after a loss", async () => {
      const backend = await t.backend();
      const key = t.key();
      const mine = new Error("mine");
      const failing = async ({ lockId, signal }) => {
        await backend.release({ lockId });
        await aborted(signal);
        throw mine;
      };
      expect(await rejection(lead(backend, failing, { key, ttlMs: 900 }))).toBe(mine);
      expect(await backend.isLocked({ key })).toBe(false);
    });

    test("the caller's signal ends the wait at once", async () => {
      const backend = await t.backend();
      const key = t.key();
      const holder = await backend.acquire({ key, ttlMs: 600_000 });
      const controller = new AbortController();
      const { signal } = controller;
      const waiting = rejection(lead(backend, () => {}, { key, signal }));
      for (let i = 0; i < 10; i++) await turn();
      const abortedAt = performance.now();
      controller.abort();
      expect((await waiting).code).toBe("Aborted");
      expect(performance.now() - abortedAt).toBeLessThan(NOISE_MS);
      expect(getEventListeners(signal, "abort")).toHaveLength(0);
      await holder.release();
    });

    test("the caller's signal ends lead() once fn has ended, even if the lock is lost too", async () => {
      const backend = await t.backend();
      for (const loses of [false, true]) {
        const key = t.key();
        const controller = new AbortController();
        let terms = 0;
        const outcome = await lead(
          backend,
          async ({ lockId, signal }) => {
            terms += 1;
            if (loses) {
              await backend.release({ lockId });
              expectLost(await aborted(signal));
            }
            controller.abort();
            await aborted(signal);
            return "ended";
          },
          { key, ttlMs: 900, signal: controller.signal },
        );
        expect(outcome).toBe("ended");
        expect(terms).toBe(1);
        await until(async () => !(await backend.isLocked({ key })));
      }
    });

    test("of several candidates one leads at a time, and each gets its turn", async () => {
      const backends = [await t.backend()];
      if (t.shared) backends.push(await t.another());
      const key = t.key();
      const checker = new OverlapChecker();
      const candidate = (_, index) =>
        lead(
          backends[index % backends.length],
          async ({ fence }) => {
            const leave = checker.enter(key, fence);
            await sleep(20);
            leave();
          },
          { key, acquisition: PATIENT },
        );
      await Promise.all(Array.from({ length: 6 }, candidate));
      expect(checker.violations).toEqual([]);
      expect(checker.sections).toBe(6);
    });
  });
}
