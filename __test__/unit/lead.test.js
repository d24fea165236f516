// lead(): waiting, leading, resigning, and losing the lock. Time is simulated.

import { getEventListeners } from "node:events";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { lead, LockError } from "../../js/index.js";
import { LOCK_ID, rejection, scripted } from "./support.js";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => {
  expect(vi.getTimerCount()).toBe(0);
  vi.useRealTimers();
});

const CONFIG = { key: "k", ttlMs: 900 };

/** Creates a backend that loses each lock but the last at its first heartbeat. */
function deposing(times) {
  let left = times;
  return scripted({
    extend: async ({ ttlMs }) =>
      left-- > 0 ? { ok: false } : { ok: true, expiresAtMs: Date.now() + ttlMs },
  });
}

/** Resolves when the signal is aborted. */
const aborted = (signal) =>
  new Promise((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));

describe("waiting", () => {
  test("has no limit, and makes an attempt at least every second", async () => {
    let free = false;
    const granting = scripted();
    const times = [];
    const backend = scripted({
      acquire: async (opts) => {
        times.push(Date.now());
        return free ? granting.acquire(opts) : { ok: false, reason: "locked" };
      },
    });
    const leading = lead(backend, () => "led", CONFIG);
    const hours = 3 * 3600_000;
    await vi.advanceTimersByTimeAsync(hours);
    free = true;
    await vi.advanceTimersByTimeAsync(1000);
    expect(await leading).toBe("led");
    const pauses = times.slice(1).map((time, index) => time - times[index]);
    expect(Math.max(...pauses)).toBeLessThanOrEqual(1000);
    expect(pauses.length).toBeGreaterThanOrEqual(hours / 1000);
  });

  test("is cancelled by the caller's signal", async () => {
    const backend = scripted({ acquire: async () => ({ ok: false, reason: "locked" }) });
    const controller = new AbortController();
    const fn = vi.fn();
    const failed = rejection(lead(backend, fn, { ...CONFIG, signal: controller.signal }));
    await vi.advanceTimersByTimeAsync(60_000);
    controller.abort("shutdown");
    const error = await failed;
    expect(error).toMatchObject({ code: "Aborted", cause: "shutdown" });
    expect(error.message).toContain("cancelled by user signal");
    expect(fn).not.toHaveBeenCalled();
    expect(backend.names()).not.toContain("release");
    expect(getEventListeners(controller.signal, "abort")).toHaveLength(0);
  });

  test("ends with a failure of the backend", async () => {
    const down = new LockError("ServiceUnavailable", "down");
    const backend = scripted({ acquire: () => Promise.reject(down) });
    expect(await rejection(lead(backend, vi.fn(), CONFIG))).toBe(down);
  });
});

describe("leading", () => {
  test("keeps the lock alive until fn returns, and resolves to its result", async () => {
    const backend = scripted();
    const leading = lead(
      backend,
      async ({ fence, signal, isHeld }) => {
        await vi.advanceTimersByTimeAsync(3100);
        expect(isHeld()).toBe(true);
        expect(signal.aborted).toBe(false);
        return fence;
      },
      CONFIG,
    );
    expect(await leading).toBe("000000000000001");
    const names = backend.names();
    expect(names.filter((name) => name === "extend")).toHaveLength(10);
    expect([names[0], names.at(-1)]).toEqual(["acquire", "release"]);
  });

  test("rejects with what fn throws", async () => {
    const backend = scripted();
    const error = new Error("cannot lead");
    expect(await rejection(lead(backend, () => Promise.reject(error), CONFIG))).toBe(error);
    expect(backend.names()).toEqual(["acquire", "release"]);
    const atOnce = () => {
      throw error;
    };
    expect(await rejection(lead(scripted(), atOnce, CONFIG))).toBe(error);
  });

  test("a failed release is reported and changes nothing else", async () => {
    const down = new Error("down");
    const backend = scripted({ release: () => Promise.reject(down) });
    const onReleaseError = vi.fn();
    expect(await lead(backend, () => "led", { ...CONFIG, onReleaseError })).toBe("led");
    expect(onReleaseError).toHaveBeenCalledExactlyOnceWith(down, {
      ...{ key: "k", lockId: LOCK_ID, source: "disposal" },
    });
  });

  test.each([
    ["returns", async () => "so far", "so far"],
    ["throws", () => Promise.reject(new Error("stopped")), new Error("stopped")],
  ])("if aborted while leading, ends when fn has ended: %s", async (_, end, outcome) => {
    const backend = scripted();
    const controller = new AbortController();
    const leading = lead(
      backend,
      async ({ signal }) => {
        await aborted(signal);
        expect(signal.reason).toBe("shutdown");
        await vi.advanceTimersByTimeAsync(5000);
        return end();
      },
      { ...CONFIG, signal: controller.signal },
    ).catch((error) => error);
    await vi.advanceTimersByTimeAsync(100);
    controller.abort("shutdown");
    expect(await leading).toEqual(outcome);
    // It kept the lock until fn had ended.
    expect(backend.names().filter((name) => name !== "extend")).toEqual(["acquire", "release"]);
    expect(backend.names().length).toBeGreaterThan(10);
    expect(getEventListeners(controller.signal, "abort")).toHaveLength(0);
  });
});

describe("after the lock is lost", () => {
  const ways = {
    "fn returns": async () => "ignored",
    "fn throws the signal's reason": async ({ signal }) => signal.throwIfAborted(),
    "fn throws an error because of it": async ({ signal }) => {
      throw new Error("stopped", { cause: signal.reason });
    },
    "fn's work was aborted": async ({ signal }) => {
      const work = new DOMException("aborted", "AbortError");
      expect(signal.aborted).toBe(true);
      throw work;
    },
  };

  test.each(Object.entries(ways))("rejoins the election when %s", async (_, end) => {
    const backend = deposing(2);
    const terms = [];
    const leading = lead(
      backend,
      async (context) => {
        terms.push(context.lockId);
        if (terms.length === 3) return "third term";
        await aborted(context.signal);
        expect(context.signal.reason).toMatchObject({ code: "LockLost" });
        return end(context);
      },
      CONFIG,
    );
    await vi.advanceTimersByTimeAsync(2000);
    expect(await leading).toBe("third term");
    expect(terms).toHaveLength(3);
    expect(backend.names().filter((name) => name !== "extend")).toEqual(
      Array(3).fill(["acquire", "release"]).flat(),
    );
  });

  test("does not rejoin before fn has ended", async () => {
    const backend = deposing(1);
    let end;
    const fn = vi.fn(() => new Promise((resolve) => (end = resolve)));
    const leading = lead(backend, fn, CONFIG);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(backend.names()).toEqual(["acquire", "extend"]);
    end("first");
    await vi.advanceTimersByTimeAsync(0);
    expect(fn).toHaveBeenCalledTimes(2);
    end("second");
    expect(await leading).toBe("second");
  });

  test("an unrelated error of fn ends it", async () => {
    const error = new TypeError("a bug");
    const leading = rejection(
      lead(
        deposing(1),
        async ({ signal }) => {
          await aborted(signal);
          throw error;
        },
        CONFIG,
      ),
    );
    await vi.advanceTimersByTimeAsync(400);
    expect(await leading).toBe(error);
  });

  test("does not rejoin if the caller's signal has aborted", async () => {
    const backend = deposing(1);
    const controller = new AbortController();
    const leading = lead(
      backend,
      async ({ signal }) => {
        await aborted(signal);
        controller.abort();
        return "last words";
      },
      { ...CONFIG, signal: controller.signal },
    );
    await vi.advanceTimersByTimeAsync(400);
    expect(await leading).toBe("last words");
    expect(backend.names()).toEqual(["acquire", "extend", "release"]);
  });

  test("waits again without a limit", async () => {
    let holder = "me";
    const granting = scripted();
    const backend = scripted({
      acquire: async (opts) =>
        holder === "other" ? { ok: false, reason: "locked" } : granting.acquire(opts),
      extend: async () => {
        holder = "other";
        return { ok: false };
      },
    });
    let terms = 0;
    const leading = lead(
      backend,
      async ({ signal }) => {
        terms += 1;
        if (terms === 2) return "again";
        await aborted(signal);
      },
      CONFIG,
    );
    await vi.advanceTimersByTimeAsync(3600_000);
    expect(terms).toBe(1);
    holder = "nobody";
    await vi.advanceTimersByTimeAsync(1000);
    expect(await leading).toBe("again");
  });
});
