// The events of lock() and similar functions, over custom backends. Time is simulated.

import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { hashKey, lock, LockError, tryHold } from "../../js/index.js";
import { LOCK_ID, observe, rejection, scripted } from "./support.js";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

/** Creates a backend whose lock is free at the given attempt. */
const freeAt = (wanted) => {
  let attempts = 0;
  const { acquire } = scripted();
  return scripted({
    acquire: async (opts) =>
      ++attempts < wanted ? { ok: false, reason: "locked" } : acquire(opts),
  });
};
const hashes = { keyHash: hashKey("k"), lockIdHash: hashKey(LOCK_ID) };
const acquisition = { jitter: "none" };

test("there is one event for the whole wait, and one for the release", async () => {
  const { backend, events } = observe(freeAt(3));
  const done = lock(backend, () => vi.advanceTimersByTimeAsync(70), {
    ...{ key: "k", name: "report", acquisition },
  });
  await vi.advanceTimersByTimeAsync(300);
  await done;
  expect(events).toEqual([
    {
      ...{ type: "acquire", result: "ok", name: "report", ...hashes },
      ...{ attempts: 3, waitMs: 300, durationMs: 300 },
    },
    {
      ...{ type: "release", result: "ok", name: "report", ...hashes },
      ...{ heldMs: 70, durationMs: 0 },
    },
  ]);
});

test("a wait that timed out has the reason locked", async () => {
  const { backend, events } = observe(freeAt(99));
  const config = { key: "k", acquisition: { ...acquisition, timeoutMs: 200 } };
  const failed = rejection(lock(backend, () => {}, config));
  await vi.advanceTimersByTimeAsync(200);
  await failed;
  expect(events).toHaveLength(1);
  expect(events[0]).toMatchObject({
    ...{ type: "acquire", result: "fail", reason: "locked", code: "AcquisitionTimeout" },
    ...{ keyHash: hashKey("k"), attempts: 2, waitMs: 200, durationMs: 200 },
  });
});

test("a refused attempt without a wait has the reason locked and no error", async () => {
  const { backend, events } = observe(freeAt(2));
  expect(await tryHold(backend, { key: "k" })).toBeNull();
  expect(events).toEqual([
    expect.objectContaining({ type: "acquire", result: "fail", reason: "locked", attempts: 1 }),
  ]);
  expect(events[0]).not.toHaveProperty("code");
});

test("a wait that was cancelled or failed has the code and no reason", async () => {
  const controller = new AbortController();
  const waiting = observe(freeAt(99));
  const failed = rejection(
    lock(waiting.backend, () => {}, { key: "k", signal: controller.signal }),
  );
  controller.abort();
  await failed;
  expect(waiting.events).toMatchObject([{ type: "acquire", result: "fail", code: "Aborted" }]);
  expect(waiting.events[0]).not.toHaveProperty("reason");

  const broken = observe(scripted({ acquire: () => Promise.reject(new Error("odd")) }));
  await rejection(lock(broken.backend, () => {}, { key: "k" }));
  expect(broken.events).toMatchObject([{ type: "acquire", result: "fail", code: "Internal" }]);
  expect(broken.events[0]).not.toHaveProperty("reason");
});

test("heartbeats, failed heartbeats and the loss have events", async () => {
  vi.spyOn(process, "emitWarning").mockImplementation(() => {});
  const outcomes = [
    async ({ ttlMs }) => ({ ok: true, expiresAtMs: Date.now() + ttlMs }),
    () => Promise.reject(new LockError("ServiceUnavailable")),
    async () => ({ ok: false }),
  ];
  const own = scripted({ extend: (opts) => outcomes.shift()(opts) });
  const { backend, events } = observe(own);
  await lock(backend, () => vi.advanceTimersByTimeAsync(2000), {
    ...{ key: "k", ttlMs: 900, autoExtend: true },
  });
  // A lost lock is released in the background.
  await vi.advanceTimersByTimeAsync(0);
  const told = events.map(({ type, result, code }) => [type, result, code]);
  expect(told).toEqual([
    ["acquire", "ok", undefined],
    ["heartbeat", "ok", undefined],
    ["heartbeat", "fail", "ServiceUnavailable"],
    ["heartbeat", "fail", "LockLost"],
    ["lost", "fail", "LockLost"],
    ["release", "ok", undefined],
  ]);
  for (const event of events) expect(event).toMatchObject(hashes);
});

test("a loss without a heartbeat is reported when it happens", async () => {
  vi.spyOn(process, "emitWarning").mockImplementation(() => {});
  const { backend, events } = observe(scripted());
  const types = () => events.map(({ type }) => type);
  await lock(
    backend,
    async () => {
      await vi.advanceTimersByTimeAsync(899);
      expect(types()).toEqual(["acquire"]);
      await vi.advanceTimersByTimeAsync(2);
      expect(types()).toEqual(["acquire", "lost"]);
    },
    { key: "k", ttlMs: 900 },
  );
  await vi.advanceTimersByTimeAsync(0);
  expect(types()).toEqual(["acquire", "lost", "release"]);
  expect(events.map(({ heldMs }) => heldMs)).toEqual([undefined, 900, 901]);
  expect(vi.getTimerCount()).toBe(0);
});

test("a manual extension has one event", async () => {
  const { backend, events } = observe(scripted());
  await lock(backend, ({ extend }) => extend(5000), { key: "k" });
  expect(events[1]).toEqual({ type: "extend", result: "ok", ...hashes, durationMs: 0 });
});

test("config.onEvent gets the events of its own call, beside the backend's listener", async () => {
  const { backend, events } = observe(scripted());
  const own = [];
  await lock(backend, () => {}, { key: "k", onEvent: (event) => own.push(event) });
  await lock(backend, () => {}, { key: "k" });
  expect(own).toEqual(events.slice(0, 2));
  expect(events).toHaveLength(4);
});
