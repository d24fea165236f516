import { describe, expect, test } from "vitest";
import { LOCK_DEFAULTS, LockError, createAutoLock, lock, owns } from "../fixtures/api.js";
import { until } from "../fixtures/wait.js";
import { rejection } from "./setup.js";

export function lockFunction(t) {
  describe("lock(): the function", () => {
    test("runs it under the lock and returns what it returns", async () => {
      const backend = await t.backend();
      const key = t.key();
      const value = { any: "thing" };
      const result = await lock(
        backend,
        async () => {
          expect(await backend.isLocked({ key })).toBe(true);
          return value;
        },
        { key },
      );
      expect(result).toBe(value);
      expect(await backend.isLocked({ key })).toBe(false);
    });

    test("a function that is not async works too, also one without parameters", async () => {
      const backend = await t.backend();
      expect(await lock(backend, () => 7, { key: t.key() })).toBe(7);
      expect(await lock(backend, () => undefined, { key: t.key() })).toBeUndefined();
    });

    test("the context: lockId, fence, expiresAtMs and a signal", async () => {
      const backend = await t.backend();
      const key = t.key();
      await lock(
        backend,
        async (context) => {
          expect(await owns(backend, context.lockId)).toBe(true);
          expect(context.fence).toBe("000000000000001");
          expect(context.expiresAtMs).toBe((await backend.lookup({ key })).expiresAtMs);
          expect(context.signal).toBeInstanceOf(AbortSignal);
          expect(context.signal.aborted).toBe(false);
        },
        { key, ttlMs: 45_000 },
      );
    });

    test("the default ttl is 30 s", async () => {
      const backend = await t.backend();
      const key = t.key();
      const info = await lock(backend, () => backend.lookup({ key }), { key });
      expect(info.expiresAtMs - info.acquiredAtMs).toBe(30_000);
    });

    test("an error of the function is passed on untouched and the lock is released", async () => {
      const backend = await t.backend();
      const key = t.key();
      const failure = new TypeError("mine");
      const rejecting = lock(backend, () => Promise.reject(failure), { key });
      expect(await rejection(rejecting)).toBe(failure);
      const throwing = lock(
        backend,
        () => {
          throw failure;
        },
        { key },
      );
      expect(await rejection(throwing)).toBe(failure);
      const falsy = lock(backend, () => Promise.reject(undefined), { key });
      expect(await rejection(falsy)).toBeUndefined();
      expect(await backend.isLocked({ key })).toBe(false);
    });

    test("the function may release the lock itself", async () => {
      const backend = await t.backend();
      const failures = [];
      const result = await lock(
        backend,
        async ({ lockId }) => (await backend.release({ lockId })).ok,
        { key: t.key(), onReleaseError: (error) => failures.push(error) },
      );
      expect(result).toBe(true);
      expect(failures).toEqual([]);
    });

    test("it is not reentrant", async () => {
      const backend = await t.backend();
      const key = t.key();
      const inner = lock(
        backend,
        () => lock(backend, () => "inside", { key, acquisition: { maxRetries: 0 } }),
        { key },
      );
      expect(await rejection(inner)).toMatchObject({ code: "AcquisitionTimeout" });
      expect(await backend.isLocked({ key })).toBe(false);
    });

    test("createAutoLock binds a backend", async () => {
      const backend = await t.backend();
      const key = t.key();
      const bound = createAutoLock(backend);
      expect(await bound(() => backend.isLocked({ key }), { key })).toBe(true);
      expect(await backend.isLocked({ key })).toBe(false);
    });

    test("signals that are not aborted change nothing", async () => {
      const backend = await t.backend();
      const { signal } = new AbortController();
      const result = await lock(backend, () => "done", {
        key: t.key(),
        signal,
        acquisition: { signal },
      });
      expect(result).toBe("done");
    });

    test("config.signal aborted while the function runs: the lock is still released", async () => {
      const backend = await t.backend();
      const key = t.key();
      const controller = new AbortController();
      const failures = [];
      const outcome = lock(
        backend,
        async () => {
          controller.abort();
          return "done";
        },
        { key, signal: controller.signal, onReleaseError: (error) => failures.push(error) },
      );
      expect(await outcome).toBe("done");
      expect(failures).toEqual([]);
      expect(await backend.isLocked({ key })).toBe(false);
    });

    test("config.signal aborted while the function runs reaches context.signal", async () => {
      const backend = await t.backend();
      const controller = new AbortController();
      const reason = new Error("enough");
      const seen = await lock(
        backend,
        (context) => {
          expect(context.signal.aborted).toBe(false);
          controller.abort(reason);
          return context.signal.reason;
        },
        { key: t.key(), signal: controller.signal },
      );
      expect(seen).toBe(reason);
    });

    test("the lock is released even if a signal misbehaves", async () => {
      const backend = await t.backend();
      const key = t.key();
      const refuse = () => {
        throw new Error("no listeners here");
      };
      const signal = { aborted: false, addEventListener: refuse, removeEventListener: refuse };
      // A call that has to wait must listen to the signal.
      const holder = await backend.acquire({ key, ttlMs: 60_000 });
      const outcome = lock(backend, () => "done", { key, ttlMs: 600_000, signal });
      expect((await rejection(outcome)).code).toBe("InvalidArgument");
      await holder.release();
      // A lock that may have been granted in the meantime is released in the background.
      await until(async () => (await backend.acquire({ key, ttlMs: 1 })).ok, "the key");
    });

    test.each([
      ["no key", {}],
      ["an empty key", { key: "" }],
      ["a key that is no string", { key: 7 }],
      ["ttlMs 0", { key: "k", ttlMs: 0 }],
      ["a ttlMs that is no number", { key: "k", ttlMs: "1000" }],
      ["a negative maxRetries", { key: "k", acquisition: { maxRetries: -1 } }],
      ["a maxRetries that is no number", { key: "k", acquisition: { maxRetries: "3" } }],
      ["a negative retryDelayMs", { key: "k", acquisition: { retryDelayMs: -1 } }],
      ["a negative timeoutMs", { key: "k", acquisition: { timeoutMs: -1 } }],
      ["NaN for timeoutMs", { key: "k", acquisition: { timeoutMs: NaN } }],
      ["an unknown backoff", { key: "k", acquisition: { backoff: "linear" } }],
      ["an unknown jitter", { key: "k", acquisition: { jitter: "some" } }],
      ["a signal that is none", { key: "k", signal: "stop" }],
      ["an acquisition signal that is none", { key: "k", acquisition: { signal: {} } }],
      ["an acquisition that is no object", { key: "k", acquisition: "fast" }],
      ["null", null],
    ])("%s is refused before the function runs", async (_, config) => {
      const backend = await t.isolated();
      let ran = false;
      const promise = lock(backend, () => (ran = true), config);
      expect(promise).toBeInstanceOf(Promise);
      const error = await rejection(promise);
      expect(error).toBeInstanceOf(LockError);
      expect(error.code).toBe("InvalidArgument");
      expect(ran).toBe(false);
      expect(await backend.isLocked({ key: "k" })).toBe(false);
    });

    test("a value that is not a function is refused", async () => {
      const backend = await t.backend();
      for (const fn of [undefined, null, "fn", {}]) {
        const error = await rejection(lock(backend, fn, { key: t.key() }));
        expect(error).toBeInstanceOf(LockError);
        expect(error.code).toBe("InvalidArgument");
      }
    });

    test("undefined means the default", async () => {
      const backend = await t.backend();
      const nothing = Object.fromEntries(
        Object.keys(LOCK_DEFAULTS).map((name) => [name, undefined]),
      );
      const result = await lock(backend, () => "done", {
        key: t.key(),
        ttlMs: undefined,
        signal: undefined,
        acquisition: { ...nothing, signal: undefined },
      });
      expect(result).toBe("done");
    });
  });
}
