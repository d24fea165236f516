// lock() and similar functions on a native backend some of whose operations a test has replaced. Such a
// backend is a custom backend: each operation is a call of its method.

import { afterEach, describe, expect, test, vi } from "vitest";
import { hold, lock, LockError, tryHold, withTelemetry } from "../../js/index.js";
import { createMemoryBackend } from "../../js/memory.js";
import { deferred, until, untilFree } from "../fixtures/wait.js";
import { LOCK_ID, rejection } from "./support.js";

afterEach(() => vi.restoreAllMocks());

const CONFIG = { key: "k", ttlMs: 60_000 };

describe.each(["acquire", "release", "extend"])("a spy on %s", (name) => {
  test("is called, and the lock is real", async () => {
    const backend = createMemoryBackend();
    const spy = vi.spyOn(backend, name);
    const held = await hold(backend, CONFIG);
    expect(held.fence).toBe("000000000000001");
    expect(await backend.isLocked({ key: "k" })).toBe(true);
    expect(await backend.lookup({ lockId: held.lockId })).not.toBeNull();
    expect((await held.extend(90_000)).ok).toBe(true);
    expect(held.expiresAtMs).toBe((await backend.lookup({ key: "k" })).expiresAtMs);
    expect(held.isHeld(80_000)).toBe(true);
    expect(await held.release()).toEqual({ ok: true });
    expect(await backend.isLocked({ key: "k" })).toBe(false);
    const { lockId } = held;
    expect(spy.mock.calls).toEqual([
      [
        {
          acquire: { ...CONFIG, signal: undefined },
          release: { lockId },
          extend: { lockId, ttlMs: 90_000 },
        }[name],
      ],
    ]);
  });

  test("is not called any more when it is restored", async () => {
    const backend = createMemoryBackend();
    const spy = vi.spyOn(backend, name);
    await lock(backend, ({ extend }) => extend(), CONFIG);
    expect(spy).toHaveBeenCalledTimes(1);
    spy.mockRestore();
    await lock(backend, ({ extend }) => extend(), CONFIG);
    const again = vi.spyOn(backend, name);
    await lock(backend, ({ extend }) => extend(), CONFIG);
    expect(again).toHaveBeenCalledTimes(1);
  });

  test("is called through telemetry too, with one event for each", async () => {
    const backend = createMemoryBackend();
    const spy = vi.spyOn(backend, name);
    const events = [];
    const observed = withTelemetry(backend, { onEvent: ({ type }) => events.push(type) });
    await lock(observed, ({ extend }) => extend(), CONFIG);
    expect(spy).toHaveBeenCalledTimes(1);
    expect(events).toEqual(["acquire", "extend", "release"]);
  });
});

test("fake timers drive the wait for a backend that is spied on", async () => {
  vi.useFakeTimers();
  try {
    const backend = createMemoryBackend();
    await backend.acquire({ key: "k", ttlMs: 60_000 });
    const acquire = vi.spyOn(backend, "acquire");
    const acquisition = { retryDelayMs: 1_000_000, timeoutMs: 10_000_000 };
    const failed = rejection(lock(backend, () => {}, { ...CONFIG, acquisition }));
    await vi.advanceTimersByTimeAsync(10_000_000);
    expect((await failed).code).toBe("AcquisitionTimeout");
    expect(acquire.mock.calls.length).toBeGreaterThan(1);
  } finally {
    vi.useRealTimers();
  }
});

test("a spied extend is called for the heartbeats", async () => {
  const backend = createMemoryBackend();
  const extend = vi.spyOn(backend, "extend");
  const held = await hold(backend, { key: "k", ttlMs: 1_500, autoExtend: true });
  await until(() => extend.mock.calls.length >= 3);
  expect(extend.mock.calls[0]).toEqual([{ lockId: held.lockId, ttlMs: 1_500 }]);
  expect((await held.release()).ok).toBe(true);
});

describe("a mocked acquire", () => {
  test("is called for each attempt, with the caller's signal", async () => {
    const backend = createMemoryBackend();
    const { signal } = new AbortController();
    const acquire = vi
      .spyOn(backend, "acquire")
      .mockResolvedValueOnce({ ok: false, reason: "locked" })
      .mockResolvedValueOnce({ ok: false, reason: "locked" });
    const acquisition = { retryDelayMs: 5, backoff: "fixed", jitter: "none" };
    expect(await lock(backend, () => "done", { ...CONFIG, signal, acquisition })).toBe("done");
    expect(acquire).toHaveBeenCalledTimes(3);
    for (const [opts] of acquire.mock.calls) {
      expect(opts).toStrictEqual({ ...CONFIG, signal });
      expect(opts.signal).toBe(signal);
    }
    expect(await backend.isLocked({ key: "k" })).toBe(false);
  });

  test("may grant a lock that the store does not have, which the release does not find", async () => {
    const backend = createMemoryBackend();
    const expiresAtMs = Date.now() + 60_000;
    vi.spyOn(backend, "acquire").mockResolvedValue({ ok: true, lockId: LOCK_ID, expiresAtMs });
    const held = await tryHold(backend, CONFIG);
    expect(held).toMatchObject({ lockId: LOCK_ID, expiresAtMs, fence: undefined });
    expect(await held.release()).toEqual({ ok: false });
  });

  test("may fail: a LockError reaches the caller, any other value becomes the cause", async () => {
    const backend = createMemoryBackend();
    const down = new LockError("ServiceUnavailable", "down");
    const acquire = vi.spyOn(backend, "acquire").mockRejectedValueOnce(down);
    expect(await rejection(lock(backend, () => {}, CONFIG))).toBe(down);
    const odd = new Error("odd");
    acquire.mockRejectedValueOnce(odd);
    const error = await rejection(lock(backend, () => {}, CONFIG));
    expect(error).toMatchObject({ code: "Internal" });
    expect(error.cause).toBe(odd);
  });

  test("a grant that comes after the wait was aborted is released", async () => {
    const backend = createMemoryBackend();
    const { acquire } = backend;
    const gate = deferred();
    let granted = false;
    vi.spyOn(backend, "acquire").mockImplementation(async ({ key, ttlMs }) => {
      await gate.promise;
      const result = await acquire({ key, ttlMs });
      granted = result.ok;
      return result;
    });
    const controller = new AbortController();
    const failed = rejection(lock(backend, () => {}, { ...CONFIG, signal: controller.signal }));
    controller.abort();
    expect((await failed).code).toBe("Aborted");
    gate.resolve();
    await until(() => granted);
    await untilFree(backend, "k");
  });
});

test("the error of a mocked release is reported unchanged", async () => {
  const backend = createMemoryBackend();
  const down = new Error("down");
  vi.spyOn(backend, "release").mockRejectedValue(down);
  const onReleaseError = vi.fn();
  await lock(backend, () => {}, { ...CONFIG, onReleaseError });
  expect(onReleaseError.mock.calls[0][0]).toBe(down);
});

test("spies on a decorated backend are called, without extra events", async () => {
  const events = [];
  const backend = withTelemetry(createMemoryBackend(), { onEvent: (event) => events.push(event) });
  const acquire = vi.spyOn(backend, "acquire");
  expect(await lock(backend, () => "done", CONFIG)).toBe("done");
  expect(acquire).toHaveBeenCalledTimes(1);
  expect(events.map(({ type, result }) => `${type} ${result}`)).toEqual([
    "acquire ok",
    "release ok",
  ]);
});
