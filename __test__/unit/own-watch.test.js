// A custom backend with watch(), which reports when a key may be free. Time is simulated.

import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { lock, tryHold } from "../../js/index.js";
import { deferred } from "../fixtures/wait.js";
import { rejection, scripted } from "./support.js";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** Locked until `free` is set; `changed()` resolves the watches so far. */
function watched(operations = {}) {
  const state = { free: false, times: [], watches: [] };
  const granting = scripted();
  const start = performance.now();
  const backend = scripted({
    acquire: async (opts) => {
      state.times.push(performance.now() - start);
      if (!state.free) return { ok: false, reason: "locked" };
      state.free = false;
      return granting.acquire(opts);
    },
    watch: (opts) => {
      const watch = { ...deferred(), opts };
      state.watches.push(watch);
      return watch.promise;
    },
    ...operations,
  });
  state.changed = async () => {
    for (const watch of state.watches) {
      watch.resolve();
      watch.settled = true;
    }
    await vi.advanceTimersByTimeAsync(0);
  };
  return { backend, state };
}
const slow = { jitter: "none", retryDelayMs: 60_000, timeoutMs: Infinity };
const config = { key: "k", acquisition: slow };

test("is not called if nobody has to wait", async () => {
  const { backend, state } = watched();
  state.free = true;
  await lock(backend, () => vi.advanceTimersByTimeAsync(1000), config);
  expect(await tryHold(backend, config)).toBeNull();
  expect(state.watches).toHaveLength(0);
});

test("gets the key and a signal, and the next attempt is made when it resolves", async () => {
  const { backend, state } = watched();
  const done = lock(backend, () => "done", { ...config, key: "e\u0301" });
  await vi.advanceTimersByTimeAsync(1000);
  expect(state.watches).toHaveLength(1);
  const [{ opts }] = state.watches;
  expect(opts).toStrictEqual({ key: "\u00e9", signal: expect.any(AbortSignal) });
  expect(opts.signal.aborted).toBe(false);
  expect(state.times).toEqual([0]);
  state.free = true;
  await state.changed();
  expect(await done).toBe("done");
  expect(state.times).toEqual([0, 1000]);
  expect(vi.getTimerCount()).toBe(0);
});

test("is called again after each time, without a retry or a back-off", async () => {
  const { backend, state } = watched();
  const acquisition = { ...slow, retryDelayMs: 1000, maxRetries: 1 };
  const failed = rejection(lock(backend, () => {}, { key: "k", acquisition }));
  for (let round = 1; round <= 5; round += 1) {
    await vi.advanceTimersByTimeAsync(100);
    expect(state.watches).toHaveLength(round);
    await state.changed();
  }
  expect(state.times).toEqual([0, 100, 200, 300, 400, 500]);
  await vi.advanceTimersByTimeAsync(500);
  expect((await failed).code).toBe("AcquisitionTimeout");
  expect(state.times.at(-1)).toBe(1000);
});

test.each([
  ["times out", { timeoutMs: 500 }, () => vi.advanceTimersByTimeAsync(500)],
  ["is aborted", {}, (controller) => controller.abort()],
])("its signal is aborted when the wait %s", async (_, limits, end) => {
  const { backend, state } = watched();
  const controller = new AbortController();
  const acquisition = { ...slow, ...limits, signal: controller.signal };
  const failed = rejection(lock(backend, () => {}, { key: "k", acquisition }));
  await vi.advanceTimersByTimeAsync(100);
  expect(state.watches[0].opts.signal.aborted).toBe(false);
  await end(controller);
  await failed;
  await vi.advanceTimersByTimeAsync(0);
  expect(state.watches[0].opts.signal.aborted).toBe(true);
  expect(vi.getTimerCount()).toBe(0);
});

test("its signal is aborted if the back-off ends first", async () => {
  const { backend, state } = watched();
  const done = lock(backend, () => "done", config);
  await vi.advanceTimersByTimeAsync(100);
  state.free = true;
  await vi.advanceTimersByTimeAsync(60_000);
  expect(await done).toBe("done");
  expect(state.times).toEqual([0, 60_000]);
  expect(state.watches).toHaveLength(1);
  expect(state.watches[0].opts.signal.aborted).toBe(true);
});

test.each([
  ["rejects", () => Promise.reject(new Error("no"))],
  ["rejects with nothing", () => Promise.reject(undefined)],
  [
    "throws",
    () => {
      throw new Error("no");
    },
  ],
])("a watch that %s leaves the wait to the back-off, and is not called again", async (_, watch) => {
  const asked = vi.fn(watch);
  const { backend, state } = watched({ watch: asked });
  const acquisition = { ...slow, retryDelayMs: 100 };
  const done = lock(backend, () => "done", { key: "k", acquisition });
  await vi.advanceTimersByTimeAsync(400);
  state.free = true;
  await vi.advanceTimersByTimeAsync(300);
  expect(await done).toBe("done");
  expect(state.times).toEqual([0, 100, 300, 700]);
  expect(asked).toHaveBeenCalledTimes(1);
});

test("waiters for one key share it, and get the lock in their order", async () => {
  const { backend, state } = watched();
  const served = [];
  const all = [1, 2, 3].map((n) => lock(backend, () => served.push(n), config));
  await vi.advanceTimersByTimeAsync(100);
  const open = () => state.watches.filter(({ opts, settled }) => !settled && !opts.signal.aborted);
  expect(open()).toHaveLength(1);
  // Each waiter that finishes lets the next one try.
  for (let round = 0; round < 3; round += 1) {
    state.free = true;
    await state.changed();
    await vi.advanceTimersByTimeAsync(100);
  }
  await Promise.all(all);
  expect(served).toEqual([1, 2, 3]);
  await vi.advanceTimersByTimeAsync(0);
  expect(open()).toHaveLength(0);
});
