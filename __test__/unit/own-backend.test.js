// lock() and similar functions over a custom backend: its errors, its lockIds, and its lifetime.

import { setTimeout as sleep } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, test, vi } from "vitest";
import { hold, lock, LockError, tryHold } from "../../js/index.js";
import { until } from "../fixtures/wait.js";
import { LOCK_ID, rejection, scripted } from "./support.js";

describe("errors that it throws", () => {
  const down = new LockError("ServiceUnavailable", "down", { cause: new Error("reset") });
  const things = [
    new TypeError("odd"),
    Object.freeze({ status: 503 }),
    "text",
    0,
    null,
    Symbol("s"),
  ];

  test.each([
    ["lock", (backend) => lock(backend, () => {}, { key: "k" })],
    ["hold", (backend) => hold(backend, { key: "k" })],
    ["tryHold", (backend) => tryHold(backend, { key: "k" })],
  ])("%s: a LockError reaches the caller unchanged, without a retry", async (_, form) => {
    for (const acquire of [
      () => Promise.reject(down),
      () => {
        throw down;
      },
    ]) {
      const backend = scripted({ acquire });
      expect(await rejection(form(backend))).toBe(down);
      expect(backend.names()).toEqual(["acquire"]);
    }
  });

  test("any other value becomes the cause of an Internal error", async () => {
    for (const thing of things) {
      const backend = scripted({ acquire: () => Promise.reject(thing) });
      const error = await rejection(lock(backend, () => {}, { key: "the-key" }));
      expect(error).toMatchObject({ code: "Internal", context: { key: "the-key" } });
      expect(error.cause).toBe(thing);
      expect(error.message).toBe(
        "The backend's acquire() failed: it threw a value that is no LockError, which is the cause",
      );
    }
    const nothing = scripted({ acquire: () => Promise.reject(undefined) });
    const error = await rejection(lock(nothing, () => {}, { key: "k" }));
    expect(error.code).toBe("Internal");
    expect("cause" in error).toBe(false);
  });

  test("several at once are not mixed up", async () => {
    const errors = Array.from({ length: 50 }, (_, n) => new Error(`${n}`));
    const failures = errors.map((thrown, n) => {
      const acquire = async () => {
        await sleep(n % 7);
        throw thrown;
      };
      return rejection(lock(scripted({ acquire }), () => {}, { key: `k${n}` }));
    });
    const causes = (await Promise.all(failures)).map(({ cause }) => cause);
    causes.forEach((cause, n) => expect(cause).toBe(errors[n]));
  });

  test("extend: fn gets the error unchanged", async () => {
    const odd = new TypeError("odd");
    for (const [thrown, check] of [
      [down, (error) => expect(error).toBe(down)],
      [odd, (error) => expect(error).toMatchObject({ code: "Internal", cause: odd })],
    ]) {
      const backend = scripted({ extend: () => Promise.reject(thrown) });
      await lock(backend, async ({ extend }) => check(await rejection(extend())), { key: "k" });
    }
  });

  test("heartbeats: the last error is the cause of the loss", async () => {
    vi.useFakeTimers();
    vi.spyOn(process, "emitWarning").mockImplementation(() => {});
    try {
      const odd = new TypeError("odd");
      for (const [thrown, causeOf] of [
        [down, (reason) => reason.cause],
        [odd, (reason) => reason.cause.cause],
      ]) {
        const backend = scripted({ extend: () => Promise.reject(thrown) });
        const reason = await lock(
          backend,
          async ({ signal }) => {
            await vi.advanceTimersByTimeAsync(1000);
            return signal.reason;
          },
          { key: "k", ttlMs: 900, autoExtend: true },
        );
        expect(reason).toMatchObject({ name: "LockError", code: "LockLost" });
        expect(causeOf(reason)).toBe(thrown);
      }
    } finally {
      vi.useRealTimers();
      vi.restoreAllMocks();
    }
  });

  test.each([undefined, null, 7, "yes", {}, { ok: 0 }, []])(
    "an acquire that returns %o grants nothing",
    async (result) => {
      expect(await tryHold(scripted({ acquire: async () => result }), { key: "k" })).toBeNull();
    },
  );
});

describe("its lockIds, fences and times", () => {
  test("lockIds and fences of any kind are returned unchanged", async () => {
    for (const lockId of ["own", 42, Symbol("id")]) {
      const grant = { ok: true, lockId, fence: 7n, expiresAtMs: 123 };
      const backend = scripted({ acquire: async () => grant });
      const held = await hold(backend, { key: "k" });
      expect(held.lockId).toBe(lockId);
      expect(held.fence).toBe(7n);
      expect(held.expiresAtMs).toBe(123);
      await held.extend(5);
      await held.release();
      expect(backend.calls.slice(1)).toEqual([
        ["extend", { lockId, ttlMs: 5 }],
        ["release", { lockId }],
      ]);
    }
  });

  test("invalid expiries change nothing", async () => {
    for (const expiresAtMs of [undefined, NaN, -1, "soon", Infinity]) {
      const backend = scripted({
        acquire: async () => ({ ok: true, lockId: LOCK_ID, expiresAtMs }),
      });
      expect(await lock(backend, () => "done", { key: "k" })).toBe("done");
    }
  });

  test("one backend can be used for many keys at once", async () => {
    let inside = 0;
    const seen = new Set();
    const backend = scripted({
      acquire: async ({ key }) => ({ ok: true, lockId: `of ${key}`, expiresAtMs: 1 }),
      release: async ({ lockId }) => (seen.add(lockId), { ok: true }),
    });
    const all = Array.from({ length: 100 }, (_, n) =>
      lock(backend, async () => (inside += 1), { key: `k${n}` }),
    );
    await Promise.all(all);
    expect(inside).toBe(100);
    expect(seen.size).toBe(100);
  });
});

describe("its lifetime", () => {
  setFlagsFromString("--expose-gc");
  const gc = runInNewContext("gc");
  const collect = async () => {
    for (let round = 0; round < 5; round += 1) {
      gc();
      await sleep(20);
    }
  };

  test("an unused backend is garbage collected", async () => {
    const used = async () => {
      const backend = scripted();
      await lock(backend, () => {}, { key: "k" });
      await (await hold(backend, { key: "k", autoExtend: true })).release();
      return new WeakRef(backend);
    };
    const ref = await used();
    await until(async () => (await collect(), ref.deref() === undefined), "it to be collected");
  });

  test("a backend with a held lock is kept, whatever part of the lock is left", async () => {
    const calls = [];
    const taken = () => {
      const backend = scripted({
        extend: async ({ ttlMs }) => {
          calls.push("extend");
          return { ok: true, expiresAtMs: Date.now() + ttlMs };
        },
        release: async () => {
          calls.push("release");
          return { ok: true };
        },
      });
      return hold(backend, { key: "k", ttlMs: 3_000, autoExtend: true });
    };
    const held = await taken();
    await collect();
    await until(async () => (await collect(), calls.length >= 3), "heartbeats");
    expect(held.isHeld()).toBe(true);
    expect(await held.release()).toEqual({ ok: true });
    expect(calls.at(-1)).toBe("release");
  });

  test("a backend with a waiter is kept", async () => {
    let free = false;
    const granting = scripted();
    const waiting = () =>
      lock(
        scripted({
          acquire: async (opts) =>
            free ? granting.acquire(opts) : { ok: false, reason: "locked" },
        }),
        () => "done",
        { key: "k", acquisition: { retryDelayMs: 50, backoff: "fixed", maxRetries: Infinity } },
      );
    const done = waiting();
    await collect();
    free = true;
    expect(await done).toBe("done");
  });
});
