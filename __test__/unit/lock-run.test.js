// lock() over a backend that is not native: running fn and releasing. Time is simulated.

import { getEventListeners } from "node:events";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { createAutoLock, lock, LockError } from "../../js/index.js";
import { LOCK_ID, rejection, scripted } from "./support.js";

beforeEach(() => {
  vi.useFakeTimers();
  // lock-loss.test.js tests the warning about a lost lock.
  vi.spyOn(process, "emitWarning").mockImplementation(() => {});
});
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
  vi.unstubAllEnvs();
});

describe("fn", () => {
  test("its result is returned by lock() after the release", async () => {
    const backend = scripted();
    const result = await lock(backend, () => (backend.calls.push(["fn"]), 42), { key: "k" });
    expect(result).toBe(42);
    expect(backend.names()).toEqual(["acquire", "fn", "release"]);
    expect(backend.calls[0][1]).toStrictEqual({ key: "k", ttlMs: 30_000, signal: undefined });
    expect(backend.calls[2][1]).toStrictEqual({ lockId: LOCK_ID });
  });

  test("the backend gets the normalized key and the caller's signal", async () => {
    const backend = scripted();
    const { signal } = new AbortController();
    await lock(backend, () => {}, { key: "e\u0301", ttlMs: 5, signal });
    expect(backend.calls[0][1]).toStrictEqual({ key: "\u00e9", ttlMs: 5, signal });
    expect(backend.calls[0][1].signal).toBe(signal);
  });

  test("its error takes precedence over that of the release, which is reported", async () => {
    const backend = scripted({ release: () => Promise.reject("no Error") });
    const onReleaseError = vi.fn();
    const failure = new Error("fn failed");
    const failing = lock(backend, () => Promise.reject(failure), { key: "k", onReleaseError });
    expect(await rejection(failing)).toBe(failure);
    expect(onReleaseError).toHaveBeenCalledExactlyOnceWith(
      expect.objectContaining({
        message: "no Error",
        originalError: "no Error",
        cause: "no Error",
      }),
      { lockId: LOCK_ID, key: "k", source: "disposal" },
    );
    expect(onReleaseError.mock.calls[0][0]).toBeInstanceOf(Error);
  });

  test("an error of the release is reported unchanged", async () => {
    const cause = new Error("reset");
    for (const thrown of [
      new RangeError("down"),
      new RangeError("down", { cause }),
      new LockError("RateLimited", "slow"),
      new LockError("ServiceUnavailable", "down", { cause }),
    ]) {
      const onReleaseError = vi.fn();
      const backend = scripted({ release: () => Promise.reject(thrown) });
      await lock(backend, () => {}, { key: "k", onReleaseError });
      expect(onReleaseError.mock.calls[0][0]).toBe(thrown);
    }
  });

  test.each([
    ["development", undefined, 1],
    ["production", undefined, 0],
    ["production", "true", 1],
  ])("a failed release without a callback is logged: %s, debug %s", async (env, debug, times) => {
    vi.stubEnv("NODE_ENV", env);
    vi.stubEnv("SYNCGUARD_DEBUG", debug);
    const error = vi.spyOn(console, "error").mockImplementation(() => {});
    const backend = scripted({
      release: () => {
        throw new Error(`the-key (${LOCK_ID}) is gone`);
      },
    });
    expect(await lock(backend, () => 1, { key: "the-key" })).toBe(1);
    expect(error).toHaveBeenCalledTimes(times);
    if (times > 0) {
      expect(error).toHaveBeenCalledWith("[SyncGuard] Lock disposal failed:", {
        error: "[redacted] ([redacted]) is gone",
        errorName: "Error",
        source: "disposal",
      });
    }
  });

  test("a release that finds no lock is not a failure", async () => {
    const onReleaseError = vi.fn();
    const backend = scripted({ release: async () => ({ ok: false }) });
    expect(await lock(backend, () => 1, { key: "k", onReleaseError })).toBe(1);
    expect(onReleaseError).not.toHaveBeenCalled();
  });

  test("a callback that throws or rejects changes nothing", async () => {
    const backend = scripted({ release: () => Promise.reject(new Error("down")) });
    for (const onReleaseError of [
      () => {
        throw new Error("callback");
      },
      () => Promise.reject(new Error("callback")),
    ]) {
      expect(await lock(backend, () => 1, { key: "k", onReleaseError })).toBe(1);
    }
  });

  test("is released without the caller's signal, even if that aborted", async () => {
    const controller = new AbortController();
    const backend = scripted();
    await lock(backend, () => controller.abort(), { key: "k", signal: controller.signal });
    expect(backend.calls.at(-1)).toEqual(["release", { lockId: LOCK_ID }]);
    expect(getEventListeners(controller.signal, "abort")).toHaveLength(0);
  });
});

describe("the context", () => {
  test("describes the lock, and can be destructured", async () => {
    const seen = await lock(
      scripted(),
      ({ lockId, fence, expiresAtMs }) => [lockId, fence, expiresAtMs],
      {
        key: "k",
        ttlMs: 1000,
      },
    );
    expect(seen).toEqual([LOCK_ID, "000000000000001", Date.now() + 1000]);
  });

  test("sets no timer unless its signal is read", async () => {
    await lock(scripted(), () => expect(vi.getTimerCount()).toBe(0), { key: "k" });
  });

  test("the signal aborts at the deadline", async () => {
    await lock(
      scripted(),
      async ({ signal }) => {
        await vi.advanceTimersByTimeAsync(999);
        expect(signal.aborted).toBe(false);
        await vi.advanceTimersByTimeAsync(1);
        expect(signal.reason).toMatchObject({ name: "LockError", code: "LockLost" });
      },
      { key: "k", ttlMs: 1000 },
    );
    expect(vi.getTimerCount()).toBe(0);
  });

  test("the deadline counts from before the attempt, and a late read sees the loss", async () => {
    const backend = scripted({
      acquire: async () => {
        await vi.advanceTimersByTimeAsync(600);
        return { ok: true, lockId: LOCK_ID, expiresAtMs: 1, fence: "1" };
      },
    });
    await lock(
      backend,
      async (context) => {
        await vi.advanceTimersByTimeAsync(400);
        expect(context.signal.reason).toMatchObject({ code: "LockLost" });
      },
      { key: "k", ttlMs: 1000 },
    );
  });

  test("the signal aborts with config.signal's reason", async () => {
    for (const readFirst of [true, false]) {
      const controller = new AbortController();
      await lock(
        scripted(),
        (context) => {
          if (readFirst) expect(context.signal.aborted).toBe(false);
          controller.abort("stop");
          expect(context.signal.reason).toBe("stop");
        },
        { key: "k", signal: controller.signal },
      );
      expect(getEventListeners(controller.signal, "abort")).toHaveLength(0);
    }
  });

  test("the signal does not abort after fn has ended", async () => {
    const controller = new AbortController();
    let context;
    await lock(scripted(), (given) => void (given.signal, (context = given)), {
      key: "k",
      ttlMs: 1000,
      signal: controller.signal,
    });
    await vi.advanceTimersByTimeAsync(2000);
    controller.abort();
    expect(context.signal.aborted).toBe(false);
  });
});

describe("autoExtend", () => {
  const config = { key: "k", ttlMs: 900, autoExtend: true };

  test("extends at each third of the TTL, and stops before the release", async () => {
    const backend = scripted();
    await lock(
      backend,
      async (context) => {
        const { signal } = context;
        await vi.advanceTimersByTimeAsync(3100);
        expect(signal.aborted).toBe(false);
        expect(context.expiresAtMs).toBe(Date.now() + 800);
      },
      config,
    );
    const extends_ = backend.calls.filter(([name]) => name === "extend");
    expect(extends_).toHaveLength(10);
    expect(extends_[0][1]).toMatchObject({ lockId: LOCK_ID, ttlMs: 900 });
    await vi.advanceTimersByTimeAsync(3000);
    expect(backend.names().at(-1)).toBe("release");
    expect(vi.getTimerCount()).toBe(0);
  });

  test("a lock that is gone aborts the signal", async () => {
    const backend = scripted({ extend: async () => ({ ok: false }) });
    await lock(
      backend,
      async ({ signal }) => {
        await vi.advanceTimersByTimeAsync(300);
        expect(signal.reason).toMatchObject({ code: "LockLost" });
        await vi.advanceTimersByTimeAsync(3000);
      },
      config,
    );
    expect(backend.names()).toEqual(["acquire", "extend", "release"]);
  });

  test("failures are retried until the deadline", async () => {
    let down = true;
    const backend = scripted({
      extend: async ({ ttlMs }) => {
        if (down) throw new LockError("ServiceUnavailable");
        return { ok: true, expiresAtMs: Date.now() + ttlMs };
      },
    });
    await lock(
      backend,
      async ({ signal }) => {
        await vi.advanceTimersByTimeAsync(700);
        down = false;
        await vi.advanceTimersByTimeAsync(900);
        expect(signal.aborted).toBe(false);
        down = true;
        await vi.advanceTimersByTimeAsync(901);
        expect(signal.reason).toMatchObject({ code: "LockLost" });
      },
      config,
    );
  });

  test("an extend that hangs neither hides the loss nor delays the end", async () => {
    const backend = scripted({ extend: () => new Promise(() => {}) });
    await lock(
      backend,
      async (context) => {
        const { signal } = context;
        await vi.advanceTimersByTimeAsync(900);
        expect(context.isHeld()).toBe(false);
        // A timer that is set when it is due needs one more.
        await vi.advanceTimersByTimeAsync(1);
        expect(signal.reason).toMatchObject({ code: "LockLost" });
      },
      config,
    );
    expect(backend.names()).toEqual(["acquire", "extend", "release"]);
    expect(vi.getTimerCount()).toBe(0);
  });
});

describe("wrong input rejects, before the backend is asked", () => {
  const hostile = Object.defineProperty({}, "key", {
    get() {
      throw new Error("hostile");
    },
  });
  const ok = { key: "k" };
  test.each([
    ["no fn", [undefined, ok]],
    ["no config", [() => {}, undefined]],
    ["null for a config", [() => {}, null]],
    ["a throwing getter", [() => {}, hostile]],
    ["no key", [() => {}, {}]],
    ["an empty key", [() => {}, { key: "" }]],
    ["a ttl of zero", [() => {}, { ...ok, ttlMs: 0 }]],
    ["a fractional ttl", [() => {}, { ...ok, ttlMs: 1.5 }]],
    ["a ttl that is text", [() => {}, { ...ok, ttlMs: "1" }]],
    ["a signal that is none", [() => {}, { ...ok, signal: {} }]],
    ["acquisition: null", [() => {}, { ...ok, acquisition: null }]],
    ["acquisition: 1", [() => {}, { ...ok, acquisition: 1 }]],
    ["maxRetries: -1", [() => {}, { ...ok, acquisition: { maxRetries: -1 } }]],
    ["maxRetries: 1.5", [() => {}, { ...ok, acquisition: { maxRetries: 1.5 } }]],
    ["retryDelayMs: Infinity", [() => {}, { ...ok, acquisition: { retryDelayMs: Infinity } }]],
    ["timeoutMs: NaN", [() => {}, { ...ok, acquisition: { timeoutMs: NaN } }]],
    ["a back-off that is none", [() => {}, { ...ok, acquisition: { backoff: "linear" } }]],
    ["a jitter that is none", [() => {}, { ...ok, acquisition: { jitter: "toString" } }]],
    ["acquisition.signal: 1", [() => {}, { ...ok, acquisition: { signal: 1 } }]],
    ["onReleaseError: 1", [() => {}, { ...ok, onReleaseError: 1 }]],
    ["onEvent: 1", [() => {}, { ...ok, onEvent: 1 }]],
    ["autoExtend: 1", [() => {}, { ...ok, autoExtend: 1 }]],
  ])("%s", async (_, args) => {
    const backend = scripted();
    const error = await rejection(lock(backend, ...args));
    expect(error).toBeInstanceOf(LockError);
    expect(error.code).toBe("InvalidArgument");
    expect(backend.calls).toEqual([]);
  });

  test.each([null, undefined, {}, { acquire() {} }, "redis:"])(
    "%o for a backend",
    async (backend) => {
      const error = await rejection(lock(backend, () => {}, ok));
      expect(error).toMatchObject({ name: "LockError", code: "InvalidArgument" });
      expect(() => createAutoLock(backend)).toThrow(/must be a LockBackend/);
    },
  );
});

test("onEvent still reports what happens", async () => {
  const events = [];
  await lock(scripted(), () => {}, { key: "k", onEvent: (event) => events.push(event) });
  expect(events.map(({ type, result }) => `${type} ${result}`)).toEqual([
    "acquire ok",
    "release ok",
  ]);
});
