// lock() on a native backend.

import { getEventListeners } from "node:events";
import { beforeEach, expect, test, vi } from "vitest";
import { lock } from "../../js/index.js";
import { createNativeBackend } from "../../js/native/backend.js";
import { answer, calls, FENCE, GRANT, LOCK_ID, next } from "./fake-native.js";
import { rejection } from "./support.js";

vi.mock("../../js/native/addon.js", () => import("./fake-native.js"));

let backend;
beforeEach(() => {
  calls.length = 0;
  next.length = 0;
  backend = createNativeBackend("fake", {}, undefined, { supportsFencing: true });
  calls.length = 0;
});

test("crosses twice", async () => {
  next.push(GRANT, "1");
  const config = { key: "k", ttlMs: 500, acquisition: { backoff: "fixed", jitter: "none" } };
  expect(await lock(backend, ({ fence }) => fence, config)).toBe(FENCE);
  expect(calls).toEqual([
    ["acquireWait", "k", 500, 10, 100, false, 0, 5000],
    ["release", LOCK_ID, "k"],
  ]);
});

test("goes through operations that were replaced", async () => {
  next.push(GRANT, "1");
  const acquire = vi.spyOn(backend, "acquire");
  await lock(backend, () => {}, { key: "k" });
  expect(acquire).toHaveBeenCalledTimes(1);
  expect(calls.map(([name]) => name)).toEqual(["acquire", "release"]);
});

test.each([
  ["signal", "cancelled by user signal"],
  ["acquisition", "Acquisition cancelled"],
])("a wait is cancelled by either signal: %s", async (which, message) => {
  const controllers = { signal: new AbortController(), acquisition: new AbortController() };
  next.push(41);
  const fn = vi.fn();
  const waiting = lock(backend, fn, {
    key: "k",
    signal: controllers.signal.signal,
    acquisition: { signal: controllers.acquisition.signal },
  });
  controllers[which].abort("why");
  const error = await rejection(waiting);
  expect(error).toMatchObject({ code: "Aborted", cause: "why" });
  expect(error.message).toContain(message);
  expect(fn).not.toHaveBeenCalled();
  expect(calls.at(-1)).toEqual(["cancel", 41]);
  answer(41, "Z");
  for (const { signal } of Object.values(controllers)) {
    expect(getEventListeners(signal, "abort")).toHaveLength(0);
  }
});

test("a grant in the same moment as the abort is given back", async () => {
  const controller = new AbortController();
  next.push(42, "1");
  const fn = vi.fn();
  const waiting = lock(backend, fn, { key: "k", signal: controller.signal });
  answer(42, GRANT);
  controller.abort();
  expect((await rejection(waiting)).code).toBe("Aborted");
  expect(fn).not.toHaveBeenCalled();
  expect(calls.at(-1)).toEqual(["release", LOCK_ID, "k"]);
});

test("autoExtend: a native heartbeat, stopped before the release", async () => {
  next.push(GRANT, 51, 1_800_000_000_000, undefined, "1");
  const seen = await lock(backend, (context) => context.expiresAtMs, {
    key: "k",
    ttlMs: 30_000,
    autoExtend: true,
  });
  expect(seen).toBe(1_800_000_000_000);
  expect(calls.map(([name]) => name)).toEqual([
    "acquireWait",
    "hold",
    "holdExpiresAt",
    "cancel",
    "release",
  ]);
  expect(calls[1]).toEqual(["hold", LOCK_ID, 30_000, 29_990]);
  answer(51, "Z");
});

test("autoExtend: a lost lock aborts the signal, also when it is read later", async () => {
  for (const readFirst of [true, false]) {
    next.push(GRANT, 52, undefined, "0");
    const reason = await lock(
      backend,
      async (context) => {
        if (readFirst) expect(context.signal.aborted).toBe(false);
        answer(52, 'E{"code":"LockLost","message":"lost"}');
        return context.signal.reason;
      },
      { key: "k", autoExtend: true },
    );
    expect(reason).toMatchObject({ name: "LockError", code: "LockLost" });
  }
});

test("autoExtend: what the heartbeat tells after fn is too late to matter", async () => {
  next.push(GRANT, 53, undefined, "1");
  const signal = await lock(backend, (context) => context.signal, { key: "k", autoExtend: true });
  answer(53, 'E{"code":"LockLost","message":"lost"}');
  expect(signal.aborted).toBe(false);
});

test("autoExtend: a heartbeat that cannot start leaves no lock behind", async () => {
  next.push(GRANT, 'E{"code":"Internal","message":"no"}', "1");
  const fn = vi.fn();
  const error = await rejection(lock(backend, fn, { key: "k", autoExtend: true }));
  expect(error.code).toBe("Internal");
  expect(fn).not.toHaveBeenCalled();
  expect(calls.at(-1)).toEqual(["release", LOCK_ID, "k"]);
});

test("an extend by fn counts: the signal aborts only after the new time", async () => {
  vi.useFakeTimers();
  try {
    next.push(GRANT.replace("29990", "1000"), "11800000000000", "1");
    await lock(
      backend,
      async (context) => {
        expect(context.signal.aborted).toBe(false);
        await vi.advanceTimersByTimeAsync(900);
        await backend.extend({ lockId: context.lockId, ttlMs: 5000 });
        expect(context.expiresAtMs).toBe(1_800_000_000_000);
        await vi.advanceTimersByTimeAsync(4900);
        expect(context.signal.aborted).toBe(false);
        await vi.advanceTimersByTimeAsync(200);
        expect(context.signal.reason).toMatchObject({ code: "LockLost" });
      },
      { key: "k" },
    );
  } finally {
    vi.useRealTimers();
  }
});
