import { getEventListeners } from "node:events";
import { describe, expect, test } from "vitest";
import { LockError, generateLockId, lock } from "../fixtures/api.js";
import { turn, untilFree } from "../fixtures/wait.js";
import { rejection } from "./setup.js";

const listeners = (signal) => getEventListeners(signal, "abort").length;

const operations = (backend, key, lockId, signal) => ({
  acquire: () => backend.acquire({ key, ttlMs: 60_000, signal }),
  release: () => backend.release({ lockId, signal }),
  extend: () => backend.extend({ lockId, ttlMs: 60_000, signal }),
  isLocked: () => backend.isLocked({ key, signal }),
  "lookup by key": () => backend.lookup({ key, signal }),
  "lookup by lockId": () => backend.lookup({ lockId, signal }),
});
const NAMES = Object.keys(operations());

function expectAborted(error) {
  expect(error).toBeInstanceOf(LockError);
  expect(error.code).toBe("Aborted");
}

export function abort(t) {
  describe("abort", () => {
    test.each(NAMES)("%s with an aborted signal does nothing", async (name) => {
      const backend = await t.backend();
      const held = await backend.acquire({ key: t.key(), ttlMs: 60_000 });
      const key = t.key();
      const signal = AbortSignal.abort(new Error("why"));
      expectAborted(await rejection(operations(backend, key, held.lockId, signal)[name]()));
      expect(listeners(signal)).toBe(0);
      expect((await backend.lookup({ lockId: held.lockId })).expiresAtMs).toBe(held.expiresAtMs);
      const first = await backend.acquire({ key, ttlMs: 60_000 });
      expect(first.fence).toBe("000000000000001");
      await first.release();
      await held.release();
    });

    test("a handle's release and extend take a signal", async () => {
      const backend = await t.backend();
      const held = await backend.acquire({ key: t.key(), ttlMs: 60_000 });
      expectAborted(await rejection(held.extend(60_000, AbortSignal.abort())));
      expect((await held.extend(60_000, new AbortController().signal)).ok).toBe(true);
      expect((await held.release(new AbortController().signal)).ok).toBe(true);
    });

    test("wrong input is reported before an aborted signal", async () => {
      const backend = await t.backend();
      const signal = AbortSignal.abort();
      for (const call of Object.values(operations(backend, 7, 7, signal))) {
        expect((await rejection(call())).code).toBe("InvalidArgument");
      }
    });

    test.each(NAMES)("%s leaves no listener on its signal", async (name) => {
      const backend = await t.backend();
      const { signal } = new AbortController();
      const held = await backend.acquire({ key: t.key(), ttlMs: 60_000 });
      const key = t.key();
      await operations(backend, key, held.lockId, signal)[name]();
      await operations(backend, key, held.lockId, signal)[name](); // refused or void: the other way out
      await rejection(operations(backend, "", "bad id", signal)[name]());
      expect(listeners(signal)).toBe(0);
    });

    test.each(NAMES)("%s aborted in flight either happened or rejects", async (name) => {
      const backend = await t.backend();
      for (let round = 0; round < 20; round++) {
        const held = await backend.acquire({ key: t.key(), ttlMs: 60_000 });
        const key = t.key();
        const controller = new AbortController();
        const pending = operations(backend, key, held.lockId, controller.signal)[name]();
        if (round % 2) await turn();
        controller.abort();
        const outcome = await pending.then(
          (value) => ({ value }),
          (error) => ({ error }),
        );
        expect(listeners(controller.signal)).toBe(0);
        if (outcome.error) {
          expectAborted(outcome.error);
          // A lock that the server granted is released long before its ttl.
          await untilFree(backend, key);
        } else if (name === "isLocked" || name === "lookup by key") {
          expect(outcome.value).toBe(name === "isLocked" ? false : null);
        } else if (name === "lookup by lockId") {
          expect(outcome.value.fence).toBe(held.fence);
        } else {
          expect(outcome.value.ok).toBe(true);
          if (name === "acquire") await outcome.value.release();
        }
        await backend.release({ lockId: held.lockId });
      }
    });

    test("an acquire that is aborted at any moment leaves no lock behind", async () => {
      const backend = await t.backend();
      // Waits about as long as an answer takes. It arrives in the meantime, on another thread.
      let answerMs = Infinity;
      for (let i = 0; i < 50; i++) {
        const askedAt = performance.now();
        const held = await backend.acquire({ key: t.key(), ttlMs: 60_000 });
        answerMs = Math.min(answerMs, performance.now() - askedAt);
        await held.release();
      }
      const since = performance.now();
      const abandoned = [];
      while (performance.now() < since + 500) {
        const key = t.key();
        const controller = new AbortController();
        const acquiring = backend.acquire({ key, ttlMs: 600_000, signal: controller.signal });
        const abortAt = performance.now() + Math.random() * 2 * answerMs;
        while (performance.now() < abortAt);
        controller.abort();
        const held = await acquiring.catch(expectAborted);
        if (held) await held.release();
        else abandoned.push(key);
      }
      for (const key of abandoned) await untilFree(backend, key);
    });

    test("many operations can share one signal, without a warning from Node.js", async () => {
      const backend = await t.backend();
      const controller = new AbortController();
      const { signal } = controller;
      const warnings = [];
      const onWarning = (warning) => warnings.push(warning.name);
      process.on("warning", onWarning);
      const key = t.key();
      const holder = await backend.acquire({ key, ttlMs: 60_000 });
      const acquisition = { retryDelayMs: 300_000, timeoutMs: 600_000, signal };
      const waiting = Array.from({ length: 30 }, () =>
        rejection(lock(backend, () => {}, { key, signal, acquisition })),
      );
      const keys = Array.from({ length: 30 }, () => t.key());
      const locks = await Promise.all(
        keys.map((each) => backend.acquire({ key: each, ttlMs: 60_000, signal })),
      );
      await Promise.all(locks.map((held) => held.release(signal)));
      controller.abort();
      for (const error of await Promise.all(waiting)) expectAborted(error);
      await turn();
      process.off("warning", onWarning);
      expect(warnings).toEqual([]);
      expect(listeners(signal)).toBe(0);
      await holder.release();
    });

    test("many waiters that are aborted leave no lock behind", async () => {
      const backend = await t.backend();
      const key = t.key();
      const holder = await backend.acquire({ key, ttlMs: 60_000 });
      const controller = new AbortController();
      const waiting = Array.from({ length: 20 }, () =>
        lock(backend, () => "entered", {
          key,
          signal: controller.signal,
          acquisition: {
            timeoutMs: 600_000,
            maxRetries: 1_000_000,
            retryDelayMs: 5,
            backoff: "fixed",
          },
        }),
      );
      const outcomes = Promise.allSettled(waiting);
      await turn();
      // Abort and release at the same moment: a waiter that acquires the key then must release it.
      const released = holder.release();
      controller.abort();
      await released;
      for (const outcome of await outcomes) {
        if (outcome.status === "rejected") expectAborted(outcome.reason);
        else expect(outcome.value).toBe("entered");
      }
      await untilFree(backend, key);
      expect(listeners(controller.signal)).toBe(0);
    });
  });
}
