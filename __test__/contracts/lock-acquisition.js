import { getEventListeners } from "node:events";
import { describe, expect, test } from "vitest";
import { LockError, lock } from "../fixtures/api.js";
import { NOISE_MS, turn, until } from "../fixtures/wait.js";
import { rejection } from "./setup.js";

// The wait is so long that only the test can end it.
const ENDLESS = { retryDelayMs: 300_000, timeoutMs: 600_000, backoff: "fixed", jitter: "none" };

// Retries without a limit.
const PATIENT = { maxRetries: 1_000_000, retryDelayMs: 5, backoff: "fixed", timeoutMs: 600_000 };

export function lockAcquisition(t) {
  describe.concurrent("lock(): acquiring", () => {
    /** Returns a key that another holder has. */
    const held = async () => {
      const backend = await t.backend();
      const key = t.key();
      const holder = await backend.acquire({ key, ttlMs: 600_000 });
      return { backend, key, holder };
    };
    const never = () => {
      throw new Error("the function must not run");
    };

    test("waits until the holder releases", async () => {
      const { backend, key, holder } = await held();
      const order = [];
      const waiting = lock(backend, () => order.push("entered"), {
        key,
        acquisition: PATIENT,
      });
      for (let i = 0; i < 10; i++) await turn();
      order.push("released");
      await holder.release();
      await waiting;
      expect(order).toEqual(["released", "entered"]);
    });

    test("waits until the holder's lock expires", async () => {
      const backend = await t.backend();
      const key = t.key();
      const askedAt = performance.now();
      const holder = await backend.acquire({ key, ttlMs: 300 });
      const fence = await lock(backend, (context) => context.fence, {
        key,
        acquisition: PATIENT,
      });
      const took = performance.now() - askedAt;
      expect(fence > holder.fence).toBe(true);
      expect(took).toBeGreaterThanOrEqual(300 - 10);
      expect(took).toBeLessThan(300 + t.toleranceMs + NOISE_MS);
    });

    if (t.native) {
      test("a release in this process wakes a waiter at once, whatever its back-off", async () => {
        const { backend, key, holder } = await held();
        const waiting = lock(backend, () => "entered", { key, acquisition: ENDLESS });
        await turn();
        await holder.release();
        expect(await waiting).toBe("entered");
      });

      test("each waiter wakes the next", async () => {
        const { backend, key, holder } = await held();
        const waiting = Array.from({ length: 20 }, (_, index) =>
          lock(backend, () => index, { key, acquisition: ENDLESS }),
        );
        await turn();
        await holder.release();
        expect(await Promise.all(waiting)).toEqual(Array.from({ length: 20 }, (_, i) => i));
      });

      test("a waiter that gives up does not swallow the wake-up", async () => {
        const { backend, key, holder } = await held();
        const controllers = Array.from({ length: 5 }, () => new AbortController());
        const leaving = controllers.map(({ signal }) =>
          rejection(lock(backend, never, { key, signal, acquisition: ENDLESS })),
        );
        const staying = lock(backend, () => "entered", { key, acquisition: ENDLESS });
        await turn();
        for (const controller of controllers) controller.abort();
        await holder.release();
        expect(await staying).toBe("entered");
        for (const error of await Promise.all(leaving)) expect(error.code).toBe("Aborted");
      });
    }

    test("gives up after timeoutMs", async () => {
      const { backend, key, holder } = await held();
      // The back-off doubles, so the last attempt has more than 300 ms for its reply. On a machine
      // that is busier than that, the message says that the store did not answer it.
      const acquisition = { timeoutMs: 1_000, retryDelayMs: 5, maxRetries: 1_000_000 };
      const askedAt = performance.now();
      const error = await rejection(
        lock(backend, never, { key, acquisition: { ...acquisition, jitter: "none" } }),
      );
      const took = performance.now() - askedAt;
      expect(error).toBeInstanceOf(LockError);
      expect(error.code).toBe("AcquisitionTimeout");
      expect(error.message).toContain("Failed to acquire lock");
      expect(error.message).toMatch(
        /acquisition\.timeoutMs \(1000\) ran out while (another holder had|the store did not answer)/,
      );
      // A store that is reached through JavaScript does not report how long the holder's lease lasts.
      if (!t.needsLoop && error.message.includes("another holder")) {
        expect(error.message).toMatch(/Its lease ends in \d+\.\d s unless it is extended/);
      }
      expect(error.message).not.toContain(key);
      // The wait used all of its time. A timer may fire a millisecond early.
      expect(took).toBeGreaterThanOrEqual(995);
      expect(took).toBeLessThan(1_000 + NOISE_MS);
      await holder.release();
    });

    test("gives up after maxRetries, without a last sleep", async () => {
      const { backend, key, holder } = await held();
      for (const maxRetries of [0, 1, 3]) {
        const error = await rejection(
          lock(backend, never, {
            key,
            acquisition: { maxRetries, retryDelayMs: 1, timeoutMs: 600_000 },
          }),
        );
        expect(error.code).toBe("AcquisitionTimeout");
        expect(error.message).toContain("Failed to acquire lock");
      }
      const askedAt = performance.now();
      const atOnce = lock(backend, never, { key, acquisition: { ...ENDLESS, maxRetries: 0 } });
      expect((await rejection(atOnce)).code).toBe("AcquisitionTimeout");
      expect(performance.now() - askedAt).toBeLessThan(NOISE_MS);
      await holder.release();
    });

    test("makes maxRetries + 1 attempts", async () => {
      const { backend, key, holder } = await held();
      let attempts = 0;
      const counting = { ...backend, acquire: (opts) => (attempts++, backend.acquire(opts)) };
      await rejection(
        lock(counting, never, {
          key,
          acquisition: { maxRetries: 4, retryDelayMs: 1, timeoutMs: 600_000 },
        }),
      );
      expect(attempts).toBe(5);
      await holder.release();
    });

    test("every back-off and jitter ends in the lock", async () => {
      const backend = await t.backend();
      for (const backoff of ["exponential", "fixed"]) {
        for (const jitter of ["equal", "full", "none"]) {
          const key = t.key();
          const holder = await backend.acquire({ key, ttlMs: 600_000 });
          const waiting = lock(backend, () => "entered", {
            key,
            acquisition: {
              backoff,
              jitter,
              retryDelayMs: 1,
              maxRetries: 1_000_000,
              timeoutMs: 600_000,
            },
          });
          await turn();
          await holder.release();
          expect(await waiting).toBe("entered");
        }
      }
    });

    const SIGNALS = [
      ["config.signal", (signal) => ({ signal }), "cancelled by user signal"],
      ["acquisition.signal", (signal) => ({ acquisition: { signal } }), "Acquisition cancelled"],
    ];

    test.each(SIGNALS)("%s aborted beforehand: no attempt is made", async (_, config, text) => {
      const backend = await t.backend();
      const key = t.key();
      const error = await rejection(lock(backend, never, { key, ...config(AbortSignal.abort()) }));
      expect(error).toBeInstanceOf(LockError);
      expect(error.code).toBe("Aborted");
      expect(error.message).toContain(text);
      const first = await backend.acquire({ key, ttlMs: 60_000 });
      expect(first.fence).toBe("000000000000001");
      await first.release();
    });

    test.each(SIGNALS)("%s aborted during a back-off ends the wait", async (_, config, text) => {
      const { backend, key, holder } = await held();
      const controller = new AbortController();
      const { signal } = controller;
      const given = config(signal);
      const waiting = rejection(
        lock(backend, never, {
          key,
          ttlMs: 600_000,
          ...given,
          acquisition: { ...ENDLESS, ...given.acquisition },
        }),
      );
      for (let i = 0; i < 10; i++) await turn();
      const abortedAt = performance.now();
      controller.abort();
      const error = await waiting;
      expect(performance.now() - abortedAt).toBeLessThan(NOISE_MS);
      expect(error).toBeInstanceOf(LockError);
      expect(error.code).toBe("Aborted");
      expect(error.message).toContain(text);
      expect(getEventListeners(signal, "abort")).toHaveLength(0);
      await holder.release();
      // Nothing is left that keeps the key. An attempt that was in flight releases it.
      const next = await until(async () => {
        const granted = await backend.acquire({ key, ttlMs: 60_000 });
        return granted.ok && granted;
      }, "the key, long before the ttl of any attempt");
      await next.release();
    });

    test("a signal can be used a second time", async () => {
      const { backend, key, holder } = await held();
      const controller = new AbortController();
      const { signal } = controller;
      const short = { maxRetries: 1, retryDelayMs: 1, timeoutMs: 600_000 };
      const given = await rejection(lock(backend, never, { key, signal, acquisition: short }));
      expect(given.code).toBe("AcquisitionTimeout");
      const waiting = rejection(lock(backend, never, { key, signal, acquisition: ENDLESS }));
      await turn();
      controller.abort();
      expect((await waiting).code).toBe("Aborted");
      await holder.release();
    });

    test("no listener is left on the signal, however the wait ends", async () => {
      const { backend, key, holder } = await held();
      const outer = new AbortController().signal;
      const inner = new AbortController().signal;
      const config = {
        key,
        signal: outer,
        acquisition: { signal: inner, maxRetries: 1, retryDelayMs: 1 },
      };
      await rejection(lock(backend, never, config));
      await holder.release();
      await lock(backend, () => {}, config);
      await rejection(lock(backend, () => Promise.reject(new Error("no")), config));
      // The function reads its own signal, which follows the caller's.
      await lock(backend, ({ signal }) => void signal, config);
      await lock(backend, ({ signal }) => void signal, { ...config, autoExtend: true });
      expect(getEventListeners(outer, "abort")).toHaveLength(0);
      expect(getEventListeners(inner, "abort")).toHaveLength(0);
    });

    test("an error of the backend ends the wait", async () => {
      const backend = await t.backend();
      const failure = new LockError("ServiceUnavailable", "away");
      const failing = { ...backend, acquire: () => Promise.reject(failure) };
      expect(await rejection(lock(failing, never, { key: t.key() }))).toBe(failure);
    });

    test("two waiters of different keys do not wait for each other", async () => {
      const { backend, key, holder } = await held();
      const waiting = lock(backend, () => "first", {
        key,
        acquisition: PATIENT,
      });
      expect(await lock(backend, () => "second", { key: t.key() })).toBe("second");
      await holder.release();
      expect(await waiting).toBe("first");
      await until(async () => !(await backend.isLocked({ key })));
    });
  });
}
