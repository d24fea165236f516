// lock() over a backend that is not native: the wait. Time is simulated.

import { getEventListeners } from "node:events";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { lock, LockError } from "../../js/index.js";
import { LOCK_ID, rejection, scripted } from "./support.js";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const locked = async () => ({ ok: false, reason: "locked" });
const exact = { jitter: "none" };

/** Records the time of each attempt, counted from now. */
function tries(free = () => false) {
  const start = performance.now();
  const times = [];
  const backend = scripted({
    acquire: async () => {
      times.push(performance.now() - start);
      if (!free(times.length)) return { ok: false, reason: "locked" };
      return { ok: true, lockId: LOCK_ID, expiresAtMs: Date.now() + 1000, fence: "1" };
    },
  });
  return { backend, times };
}

describe("attempts", () => {
  test("double the delay between them", async () => {
    const { backend, times } = tries((attempt) => attempt === 5);
    const done = lock(backend, () => "done", { key: "k", acquisition: exact });
    await vi.advanceTimersByTimeAsync(1500);
    expect(await done).toBe("done");
    expect(times).toEqual([0, 100, 300, 700, 1500]);
  });

  test("keep the delay with a fixed back-off", async () => {
    const { backend, times } = tries((attempt) => attempt === 4);
    const acquisition = { ...exact, backoff: "fixed", retryDelayMs: 50 };
    const done = lock(backend, () => {}, { key: "k", acquisition });
    await vi.advanceTimersByTimeAsync(150);
    await done;
    expect(times).toEqual([0, 50, 100, 150]);
  });

  test.each([
    ["equal", 500],
    ["full", 0],
  ])("%s jitter stays within its bounds", async (jitter, least) => {
    for (let round = 0; round < 20; round += 1) {
      const { backend, times } = tries((attempt) => attempt === 2);
      const acquisition = { jitter, retryDelayMs: 1000 };
      const done = lock(backend, () => {}, { key: "k", acquisition });
      await vi.advanceTimersByTimeAsync(1000);
      await done;
      expect(times[1]).toBeGreaterThanOrEqual(least);
      expect(times[1]).toBeLessThanOrEqual(1000);
    }
  });

  test("end after maxRetries", async () => {
    const { backend, times } = tries();
    const config = { key: "the-key", acquisition: { ...exact, maxRetries: 2 } };
    const failed = rejection(lock(backend, () => {}, config));
    await vi.advanceTimersByTimeAsync(300);
    const error = await failed;
    expect(error).toMatchObject({ code: "AcquisitionTimeout", context: { key: "the-key" } });
    expect(error.message).toMatch(
      /^Failed to acquire lock after 3 attempts in 300 ms: acquisition\.maxRetries \(2\) was reached/,
    );
    expect(error.message).not.toContain("the-key");
    expect(times).toEqual([0, 100, 300]);
    expect(vi.getTimerCount()).toBe(0);
  });

  test("there is one without retries", async () => {
    const { backend, times } = tries();
    const config = { key: "k", acquisition: { maxRetries: 0 } };
    expect((await rejection(lock(backend, () => {}, config))).code).toBe("AcquisitionTimeout");
    expect(times).toEqual([0]);
  });

  test("continue without a limit", async () => {
    const { backend, times } = tries((attempt) => attempt === 200);
    const acquisition = { ...exact, backoff: "fixed", maxRetries: Infinity, timeoutMs: Infinity };
    const done = lock(backend, () => "done", { key: "k", acquisition });
    await vi.advanceTimersByTimeAsync(20_000);
    expect(await done).toBe("done");
    expect(times).toHaveLength(200);
  });
});

describe("the time limit", () => {
  test.each(["exponential", "fixed"])("alone limits the wait (%s)", async (backoff) => {
    const { backend, times } = tries();
    const config = { key: "k", acquisition: { ...exact, backoff, timeoutMs: 600_000 } };
    const failed = rejection(lock(backend, () => {}, config));
    await vi.advanceTimersByTimeAsync(599_999);
    expect(times.at(-1)).toBeGreaterThan(250_000);
    await vi.advanceTimersByTimeAsync(1);
    expect((await failed).message).toContain(
      " in 600000 ms: acquisition.timeoutMs (600000) ran out",
    );
  });

  test("ends the wait together with maxRetries if both are given", async () => {
    const { backend, times } = tries();
    const acquisition = { ...exact, timeoutMs: 600_000, maxRetries: 2 };
    const failed = rejection(lock(backend, () => {}, { key: "k", acquisition }));
    await vi.advanceTimersByTimeAsync(300);
    expect((await failed).message).toContain("acquisition.maxRetries (2) was reached");
    expect(times).toEqual([0, 100, 300]);
  });

  test("shortens the last delay", async () => {
    const { backend, times } = tries();
    const config = { key: "k", acquisition: { ...exact, timeoutMs: 250 } };
    const failed = rejection(lock(backend, () => {}, config));
    await vi.advanceTimersByTimeAsync(249);
    expect(times).toEqual([0, 100]);
    await vi.advanceTimersByTimeAsync(1);
    expect((await failed).message).toMatch(
      /^Failed to acquire lock after 2 attempts in 250 ms: acquisition\.timeoutMs \(250\) ran out/,
    );
    expect(times).toEqual([0, 100]);
  });

  test("applies to an attempt in flight, whose late grant is released", async () => {
    let grant;
    const backend = scripted({ acquire: () => new Promise((resolve) => (grant = resolve)) });
    const fn = vi.fn();
    const failed = rejection(lock(backend, fn, { key: "k", acquisition: { timeoutMs: 100 } }));
    await vi.advanceTimersByTimeAsync(100);
    expect((await failed).code).toBe("AcquisitionTimeout");
    expect(backend.calls).toEqual([["acquire", { key: "k", ttlMs: 30_000, signal: undefined }]]);
    grant({ ok: true, lockId: LOCK_ID, expiresAtMs: 1 });
    await vi.advanceTimersByTimeAsync(0);
    expect(backend.calls[1]).toEqual(["release", { lockId: LOCK_ID }]);
    expect(fn).not.toHaveBeenCalled();
  });

  test("a late refusal or failure changes nothing", async () => {
    for (const end of [{ ok: false, reason: "locked" }, "failure"]) {
      let settle;
      const backend = scripted({ acquire: () => new Promise((resolve) => (settle = resolve)) });
      const failed = rejection(
        lock(backend, () => {}, { key: "k", acquisition: { timeoutMs: 1 } }),
      );
      await vi.advanceTimersByTimeAsync(1);
      await failed;
      settle(end === "failure" ? Promise.reject(new Error("late")) : end);
      await vi.advanceTimersByTimeAsync(0);
      expect(backend.names()).toEqual(["acquire"]);
    }
  });

  test("of zero still allows one attempt", async () => {
    const { backend } = tries(() => true);
    const config = { key: "k", acquisition: { timeoutMs: 0 } };
    expect(await lock(backend, () => "done", config)).toBe("done");
  });
});

describe("signals", () => {
  const where = [
    ["signal", "cancelled by user signal"],
    ["acquisition", "Acquisition cancelled"],
  ];
  const configure = (which, signal, rest) =>
    which === "signal"
      ? { key: "k", signal, acquisition: rest }
      : { key: "k", acquisition: { ...rest, signal } };

  test.each(where)("aborted before the call: no attempt (%s)", async (which, text) => {
    const backend = scripted();
    const error = await rejection(lock(backend, () => {}, configure(which, AbortSignal.abort(7))));
    expect(error).toMatchObject({ code: "Aborted", cause: 7 });
    expect(error.message).toContain(text);
    expect(backend.calls).toEqual([]);
  });

  test.each(where)("aborted during a delay: the wait ends at once (%s)", async (which, text) => {
    const backend = scripted({ acquire: locked });
    const controller = new AbortController();
    const config = configure(which, controller.signal, { ...exact, retryDelayMs: 1000 });
    const failed = rejection(lock(backend, () => {}, config));
    await vi.advanceTimersByTimeAsync(10);
    controller.abort();
    expect((await failed).message).toContain(text);
    expect(getEventListeners(controller.signal, "abort")).toHaveLength(0);
    expect(vi.getTimerCount()).toBe(0);
  });

  test.each(where)(
    "aborted in flight: the wait ends at once and a grant is undone (%s)",
    async (which, text) => {
      let grant;
      const backend = scripted({ acquire: () => new Promise((resolve) => (grant = resolve)) });
      const controller = new AbortController();
      const failed = rejection(lock(backend, () => {}, configure(which, controller.signal)));
      await vi.advanceTimersByTimeAsync(0);
      controller.abort();
      expect((await failed).message).toContain(text);
      // The backend gets the caller's own signal, or none. The wait's signal does not cancel its work.
      expect(backend.calls[0][1].signal).toBe(which === "signal" ? controller.signal : undefined);
      grant({ ok: true, lockId: LOCK_ID, expiresAtMs: 1 });
      await vi.advanceTimersByTimeAsync(0);
      expect(backend.names()).toEqual(["acquire", "release"]);
    },
  );

  test("a backend that rejects because of the abort does not change the message", async () => {
    const backend = scripted({
      acquire: ({ signal }) =>
        new Promise((_, reject) => {
          signal.addEventListener("abort", () => reject(new LockError("Aborted", "its own words")));
        }),
    });
    const controller = new AbortController();
    const failed = rejection(lock(backend, () => {}, configure("signal", controller.signal)));
    await vi.advanceTimersByTimeAsync(0);
    controller.abort();
    expect((await failed).message).toContain("cancelled by user signal");
  });

  test("aborted at the moment of the grant: fn does not run", async () => {
    const controller = new AbortController();
    const backend = scripted({
      acquire: async () => {
        controller.abort();
        return { ok: true, lockId: LOCK_ID, expiresAtMs: 1 };
      },
    });
    const fn = vi.fn();
    const error = await rejection(lock(backend, fn, configure("signal", controller.signal)));
    expect(error.code).toBe("Aborted");
    await vi.advanceTimersByTimeAsync(0);
    expect(backend.names()).toEqual(["acquire", "release"]);
    expect(fn).not.toHaveBeenCalled();
  });
});

describe("failures of the backend", () => {
  test("end the wait without a retry", async () => {
    const down = new LockError("ServiceUnavailable", "down");
    const backend = scripted({ acquire: () => Promise.reject(down) });
    expect(await rejection(lock(backend, () => {}, { key: "k" }))).toBe(down);
    expect(backend.names()).toEqual(["acquire"]);
    expect(vi.getTimerCount()).toBe(0);
  });

  test.each([
    ["rejects", () => Promise.reject(new TypeError("odd"))],
    [
      "throws",
      () => {
        throw new TypeError("odd");
      },
    ],
  ])("that are not a LockError become one: acquire %s", async (_, acquire) => {
    const error = await rejection(lock(scripted({ acquire }), () => {}, { key: "k" }));
    expect(error).toBeInstanceOf(LockError);
    expect(error).toMatchObject({ code: "Internal", cause: { message: "odd" } });
  });
});
