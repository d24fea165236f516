// Locks that are lost, given up, or held for a certain time. Time is simulated.

import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { LOCK_ID, rejection, scripted } from "./support.js";

let hold, lock, tryLock, warn;
beforeEach(async () => {
  // The warning is shown once per process: each test gets a package that has not shown it.
  vi.resetModules();
  ({ hold, lock, tryLock } = await import("../../js/index.js"));
  vi.useFakeTimers();
  vi.stubEnv("NODE_ENV", "test");
  warn = vi.spyOn(process, "emitWarning").mockImplementation(() => {});
});
afterEach(() => {
  expect(vi.getTimerCount()).toBe(0);
  vi.useRealTimers();
  vi.restoreAllMocks();
  vi.unstubAllEnvs();
});

const pass = (ms) => () => vi.advanceTimersByTimeAsync(ms).then(() => "done");
const CONFIG = { key: "the-key", ttlMs: 1000 };
const lost = { name: "LockError", code: "LockLost" };

describe("fn outlives its lock", () => {
  test("its value is returned, and there is one warning", async () => {
    expect(await lock(scripted(), pass(1500), CONFIG)).toBe("done");
    expect(warn).toHaveBeenCalledTimes(1);
    const [text, options] = warn.mock.calls[0];
    expect(options).toEqual({ type: "SyncGuardWarning", code: "SYNCGUARD_LOCK_LOST" });
    expect(text).toMatch(/^A lock was lost .*ran for 1500 ms with ttlMs 1000/);
    expect(text).toContain("autoExtend");
    expect(text).not.toContain("the-key");
    expect(text).not.toContain(LOCK_ID);
  });

  test("tryLock does the same", async () => {
    expect(await tryLock(scripted(), pass(1500), CONFIG)).toEqual({ ok: true, value: "done" });
    expect(warn).toHaveBeenCalledTimes(1);
  });

  test("the warning's advice depends on autoExtend", async () => {
    const backend = scripted({ extend: async () => ({ ok: false }) });
    await lock(backend, pass(700), { ...CONFIG, autoExtend: true });
    expect(warn).toHaveBeenCalledTimes(1);
    expect(warn.mock.calls[0][0]).toMatch(/ran for 700 ms .* when context.signal aborts/);
  });

  test.each(["production", "development", undefined])("NODE_ENV %s: it warns once", async (env) => {
    vi.stubEnv("NODE_ENV", env);
    for (let time = 0; time < 3; time++) await lock(scripted(), pass(1500), CONFIG);
    expect(warn).toHaveBeenCalledTimes(1);
  });

  test("there is no warning if fn was in time, the lock was kept alive, or fn failed", async () => {
    await lock(scripted(), pass(999), CONFIG);
    await lock(scripted(), pass(5000), { ...CONFIG, autoExtend: true });
    const failing = async () => {
      await vi.advanceTimersByTimeAsync(1500);
      throw new Error("fn");
    };
    await rejection(lock(scripted(), failing, CONFIG));
    expect(warn).not.toHaveBeenCalled();
  });

  test("a warning that throws changes nothing", async () => {
    warn.mockImplementation(() => {
      throw new Error("warning");
    });
    expect(await lock(scripted(), pass(1500), CONFIG)).toBe("done");
  });
});

describe("the store is unreachable when a lost lock is released", () => {
  let fail;
  const away = () => {
    const release = () => new Promise((_, reject) => (fail = reject));
    return scripted({ release });
  };
  const onReleaseError = vi.fn();
  const config = { ...CONFIG, onReleaseError };
  beforeEach(() => void onReleaseError.mockClear());

  test("fn's value is returned at once, and the failure is reported later", async () => {
    const backend = away();
    expect(await lock(backend, pass(1500), config)).toBe("done");
    expect(await tryLock(backend, pass(1500), config)).toEqual({ ok: true, value: "done" });
    expect(backend.names()).toEqual(["acquire", "release", "acquire", "release"]);
    expect(onReleaseError).not.toHaveBeenCalled();
    const failure = new Error("away");
    fail(failure);
    await vi.advanceTimersByTimeAsync(0);
    expect(onReleaseError).toHaveBeenCalledTimes(1);
    expect(onReleaseError.mock.calls[0][0]).toBe(failure);
  });

  test("fn's error and the loss reject at once", async () => {
    const error = new Error("fn");
    const failing = async () => {
      await vi.advanceTimersByTimeAsync(1500);
      throw error;
    };
    expect(await rejection(lock(away(), failing, config))).toBe(error);
    const strict = { ...config, throwIfLost: true };
    expect(await rejection(lock(away(), pass(1500), strict))).toMatchObject(lost);
  });

  test("a scope ends at once, but release() waits for its result", async () => {
    const first = await hold(away(), config);
    await vi.advanceTimersByTimeAsync(1500);
    await first[Symbol.asyncDispose]();

    const second = await hold(away(), config);
    await vi.advanceTimersByTimeAsync(1500);
    const releasing = rejection(second.release());
    const failure = new Error("away");
    fail(failure);
    expect(await releasing).toBe(failure);
  });

  test("the release of a lock that is still held is awaited", async () => {
    const returned = vi.fn();
    const locking = lock(away(), () => "done", config).then(returned);
    await vi.advanceTimersByTimeAsync(500);
    expect(returned).not.toHaveBeenCalled();
    fail(new Error("away"));
    await locking;
    expect(onReleaseError).toHaveBeenCalledTimes(1);
  });
});

describe("throwIfLost", () => {
  const config = { ...CONFIG, throwIfLost: true };

  test.each(["lock", "tryLock"])("%s rejects, after the release", async (name) => {
    const form = { lock, tryLock }[name];
    const backend = scripted();
    const error = await rejection(form(backend, pass(1500), config));
    expect(error).toMatchObject({ ...lost, context: { key: "the-key", lockId: LOCK_ID } });
    expect(error.message).not.toContain("the-key");
    expect(backend.names()).toEqual(["acquire", "release"]);
    expect(warn).not.toHaveBeenCalled();
  });

  test("rejects with the reason of the signal", async () => {
    let signal;
    const fn = (context) => {
      ({ signal } = context);
      return vi.advanceTimersByTimeAsync(1500);
    };
    const error = await rejection(lock(scripted(), fn, config));
    expect(signal.reason).toBe(error);
  });

  test("an error of fn takes precedence", async () => {
    const error = new Error("fn");
    const fn = async () => {
      await vi.advanceTimersByTimeAsync(1500);
      throw error;
    };
    expect(await rejection(lock(scripted(), fn, config))).toBe(error);
  });

  test("does nothing if the lock was held to the end", async () => {
    expect(await lock(scripted(), pass(999), config)).toBe("done");
    expect(await lock(scripted(), pass(5000), { ...config, autoExtend: true })).toBe("done");
    const extending = async ({ extend }) => {
      await vi.advanceTimersByTimeAsync(900);
      await extend();
      await vi.advanceTimersByTimeAsync(900);
      return "done";
    };
    expect(await lock(scripted(), extending, config)).toBe("done");
  });

  test("context.throwIfLost() throws from the moment of the loss", async () => {
    const fn = async ({ throwIfLost, isHeld }) => {
      await vi.advanceTimersByTimeAsync(999);
      throwIfLost();
      expect([isHeld(), isHeld(1)]).toEqual([true, false]);
      await vi.advanceTimersByTimeAsync(1);
      expect(isHeld()).toBe(false);
      throwIfLost();
    };
    expect(await rejection(lock(scripted(), fn, CONFIG))).toMatchObject(lost);
  });
});

describe("an extension by fn", () => {
  test("delays the abort of the signal to the new deadline", async () => {
    await lock(
      scripted(),
      async (context) => {
        const { signal } = context;
        await vi.advanceTimersByTimeAsync(900);
        const extended = await context.extend(5000);
        expect(extended).toEqual({ ok: true, expiresAtMs: Date.now() + 5000 });
        expect(context.expiresAtMs).toBe(extended.expiresAtMs);
        await vi.advanceTimersByTimeAsync(4999);
        expect(signal.aborted).toBe(false);
        await vi.advanceTimersByTimeAsync(2);
        expect(signal.reason).toMatchObject(lost);
      },
      CONFIG,
    );
  });

  test("may shorten the lease, so that the signal aborts sooner", async () => {
    await lock(
      scripted(),
      async ({ signal, extend }) => {
        await extend(100);
        await vi.advanceTimersByTimeAsync(99);
        expect(signal.aborted).toBe(false);
        await vi.advanceTimersByTimeAsync(2);
        expect(signal.reason).toMatchObject(lost);
      },
      CONFIG,
    );
  });

  test("that finds no lock reports the loss", async () => {
    const backend = scripted({ extend: async () => ({ ok: false }) });
    await lock(
      backend,
      async ({ signal, extend, isHeld }) => {
        expect(await extend(5000)).toMatchObject({ ok: false });
        expect(isHeld()).toBe(false);
        expect(signal.reason).toMatchObject(lost);
      },
      CONFIG,
    );
  });
});

describe("maxHoldMs", () => {
  test("ends the hold with LockLost, and releases the lock at once", async () => {
    const backend = scripted();
    await lock(
      backend,
      async ({ signal }) => {
        await vi.advanceTimersByTimeAsync(2499);
        expect(signal.aborted).toBe(false);
        await vi.advanceTimersByTimeAsync(1);
        expect(signal.reason).toMatchObject(lost);
        expect(signal.reason.message).toContain("maxHoldMs");
        expect(backend.names().at(-1)).toBe("release");
      },
      { ...CONFIG, autoExtend: true, maxHoldMs: 2500 },
    );
    expect(backend.names().filter((name) => name === "release")).toHaveLength(1);
  });

  test("has no effect if the work is done sooner", async () => {
    const backend = scripted();
    const config = { ...CONFIG, autoExtend: true, maxHoldMs: 2500, throwIfLost: true };
    expect(await lock(backend, pass(2400), config)).toBe("done");
  });
});

describe("minHoldMs", () => {
  test("work that is done sooner leaves the lock held for the rest of the time", async () => {
    const backend = scripted();
    expect(await lock(backend, pass(300), { ...CONFIG, minHoldMs: 5000 })).toBe("done");
    expect(backend.calls.slice(1)).toEqual([["extend", { lockId: LOCK_ID, ttlMs: 4700 }]]);
  });

  test("work that took at least as long releases the lock", async () => {
    const backend = scripted();
    await lock(backend, pass(600), { ...CONFIG, minHoldMs: 600 });
    expect(backend.names()).toEqual(["acquire", "release"]);
  });

  test("applies to hold() and after an error of fn too", async () => {
    const held = scripted();
    await (await hold(held, { ...CONFIG, minHoldMs: 5000 })).release();
    const failed = scripted();
    const failing = () => Promise.reject(new Error("fn"));
    await rejection(lock(failed, failing, { ...CONFIG, minHoldMs: 5000 }));
    for (const backend of [held, failed]) expect(backend.names()).toEqual(["acquire", "extend"]);
  });
});
