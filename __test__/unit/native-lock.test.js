// lock() and similar functions on a native backend: how many native calls they make, and how they use the replies.

import { getEventListeners } from "node:events";
import { beforeEach, describe, expect, test, vi } from "vitest";
import { hold, lock, LOCK_DEFAULTS, tryHold, tryLock, withTelemetry } from "../../js/index.js";
import { createNativeBackend } from "../../js/native/backend.js";
import {
  answer,
  calls,
  DENIED,
  FENCE,
  HOLD,
  LOCK_ID,
  LOST,
  next,
  reset,
  state,
} from "./fake-native.js";
import { rejection } from "./support.js";

vi.mock("../../js/native/addon.js", () => import("./fake-native.js"));

let backend;
beforeEach(() => {
  reset();
  backend = createNativeBackend("fake", {}, undefined, { backend: "fake", supportsFencing: true });
  calls.length = 0;
});

const names = () => calls.map(([name]) => name);
const limits = (...all) => Float64Array.from(all);
const unknownLimits = [Infinity, Infinity, Infinity];

describe("calls into the addon", () => {
  test("lock() makes two", async () => {
    next.push(HOLD, "1");
    const acquisition = { backoff: "fixed", jitter: "none" };
    const config = { key: "k", ttlMs: 500, acquisition };
    expect(await lock(backend, ({ fence }) => fence, config)).toBe(FENCE);
    expect(calls).toEqual([
      ["hold", "k", 500, true, false, false, 0, limits(10, 100, 0, 0, 5000, ...unknownLimits, 0)],
      ["endHold", 7, false, false],
    ]);
  });

  test("the default limits are those of LOCK_DEFAULTS", async () => {
    next.push(HOLD, "1");
    await lock(backend, () => {}, { key: "k" });
    const { maxRetries, retryDelayMs, timeoutMs, backoff, jitter } = LOCK_DEFAULTS;
    expect([backoff, jitter]).toEqual(["exponential", "equal"]);
    const defaults = limits(maxRetries, retryDelayMs, 1, 1, timeoutMs, ...unknownLimits, 0);
    expect(calls[0]).toEqual(["hold", "k", 30_000, true, true, false, 0, defaults]);
  });

  test("all limits and cancellability are passed", async () => {
    next.push(HOLD, "1");
    await lock(backend, () => {}, {
      key: "k",
      autoExtend: true,
      maxHoldMs: 60_000,
      minHoldMs: 5,
      signal: new AbortController().signal,
      acquisition: {
        ...{ maxRetries: 3, retryDelayMs: 7, maxDelayMs: 9, timeoutMs: 11 },
        ...{ backoff: "exponential", jitter: "full" },
      },
    });
    const given = limits(3, 7, 1, 2, 11, 9, 60_000, 5, 0);
    expect(calls[0]).toEqual(["hold", "k", 30_000, true, true, true, 0, given]);
  });

  test("a release that is answered at once may carry the next waiter's reply", async () => {
    next.push(HOLD, 54, `154,${HOLD.replace(",7,", ",8,")}`, "1");
    const first = await hold(backend, { key: "k" });
    const second = lock(backend, ({ fence }) => fence, { key: "k" });
    expect(await first.release()).toEqual({ ok: true });
    expect(await second).toBe(FENCE);
    expect(calls.slice(2)).toEqual([
      ["endHold", 7, true, false],
      ["endHold", 8, false, false],
    ]);
  });

  test("a release that is answered later gets its own reply", async () => {
    next.push(HOLD, 55, 56);
    const first = await hold(backend, { key: "k" });
    const second = tryHold(backend, { key: "k" });
    const released = first.release();
    answer(56, "1", 55, "L");
    expect(await released).toEqual({ ok: true });
    expect(await second).toBeNull();
  });

  test("tryLock() does not wait", async () => {
    next.push(HOLD, "1", "L");
    expect(await tryLock(backend, () => 42, { key: "k" })).toEqual({ ok: true, value: 42 });
    const fn = vi.fn();
    expect(await tryLock(backend, fn, { key: "k" })).toEqual({ ok: false, reason: "locked" });
    expect(fn).not.toHaveBeenCalled();
    expect(names()).toEqual(["hold", "endHold", "hold"]);
    for (const call of [calls[0], calls[2]]) expect(call[3]).toBe(false);
  });

  test("hold() and tryHold() make one at the beginning and one at the end", async () => {
    for (const [form, waits] of [
      [hold, true],
      [tryHold, false],
    ]) {
      calls.length = 0;
      next.push(HOLD, "1");
      const held = await form(backend, { key: "k" });
      expect(held).toMatchObject({ lockId: LOCK_ID, fence: FENCE });
      expect(held.isHeld()).toBe(true);
      expect(await held.release()).toEqual({ ok: true });
      expect(await held.release()).toEqual({ ok: false });
      await held[Symbol.asyncDispose]();
      expect(held.isHeld()).toBe(false);
      expect(names()).toEqual(["hold", "endHold"]);
      expect(calls[0][3]).toBe(waits);
    }
    next.push("L");
    expect(await tryHold(backend, { key: "k" })).toBeNull();
  });

  test("a wait ends with its reply, whenever that comes", async () => {
    next.push(40, 41);
    const waiting = lock(backend, () => "done", { key: "k" });
    answer(40, HOLD);
    await vi.waitFor(() => expect(names()).toContain("endHold"));
    answer(41, "1");
    expect(await waiting).toBe("done");
  });

  test.each([DENIED, "", "?", "Z", "1"])(
    "the reply %o is an error, and fn does not run",
    async (reply) => {
      const fn = vi.fn();
      for (const later of [true, false]) {
        next.push(later ? 42 : reply);
        const failed = rejection(lock(backend, fn, { key: "the-key" }));
        if (later) answer(42, reply);
        const error = await failed;
        expect(error).toMatchObject({ name: "LockError", context: { key: "the-key" } });
        expect(error.code).toBe(reply === DENIED ? "AuthFailed" : "Internal");
      }
      expect(fn).not.toHaveBeenCalled();
    },
  );
});

test("a backend whose operations were replaced has an engine of its own, created once", async () => {
  const opened = async () => {
    calls.length = 0;
    next.push(HOLD, "1");
    await lock(backend, () => {}, { key: "k" });
    expect(names().slice(-2)).toEqual(["hold", "endHold"]);
    return calls.filter(([name]) => name === "openCustom").length;
  };
  expect(await opened()).toBe(0);
  const acquire = vi.spyOn(backend, "acquire");
  expect(await opened()).toBe(1);
  vi.spyOn(backend, "extend");
  expect(await opened()).toBe(0);
  acquire.mockRestore();
  expect(await opened()).toBe(0);
});

describe("abort", () => {
  test.each([
    ["signal", "cancelled by user signal"],
    ["acquisition", "Acquisition cancelled"],
  ])("a wait is cancelled by either signal: %s", async (which, message) => {
    const controllers = { signal: new AbortController(), acquisition: new AbortController() };
    next.push(43);
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
    expect(calls.at(-1)).toEqual(["cancel", 43]);
    answer(43, "Z");
    for (const { signal } of Object.values(controllers)) {
      expect(getEventListeners(signal, "abort")).toHaveLength(0);
    }
  });

  test("a grant at the same moment is released", async () => {
    const controller = new AbortController();
    next.push(44, 45);
    const fn = vi.fn();
    const waiting = lock(backend, fn, { key: "k", signal: controller.signal });
    answer(44, HOLD);
    controller.abort();
    expect((await rejection(waiting)).code).toBe("Aborted");
    expect(fn).not.toHaveBeenCalled();
    expect(calls.at(-1)).toEqual(["abandonHold", 7]);
    expect(getEventListeners(controller.signal, "abort")).toHaveLength(0);
    answer(45, "1");
  });

  test("an immediate grant is released if the signal aborted in the meantime", async () => {
    const controller = new AbortController();
    let looks = 0;
    const signal = new Proxy(controller.signal, {
      get(target, name) {
        // The signal aborts between the check of the config and that of the grant.
        if (name === "aborted" && ++looks === 2) controller.abort();
        const value = Reflect.get(target, name, target);
        return typeof value === "function" ? value.bind(target) : value;
      },
    });
    next.push(HOLD, "1");
    expect((await rejection(lock(backend, vi.fn(), { key: "k", signal }))).code).toBe("Aborted");
    expect(names()).toEqual(["hold", "abandonHold"]);
  });

  test("by an event in the same batch as the grant: the grant is released", async () => {
    const controller = new AbortController();
    next.push(HOLD, 46, "1", "1");
    const held = await hold(backend, { key: "first" });
    held.signal.addEventListener("abort", () => controller.abort());
    const waiting = lock(backend, vi.fn(), { key: "k", signal: controller.signal });
    answer(7, LOST, 46, HOLD.replace(",7,", ",8,"));
    expect((await rejection(waiting)).code).toBe("Aborted");
    // The reply had left the native side, so there was nothing left to cancel.
    expect(calls).toContainEqual(["abandonHold", 8]);
    await held.release();
  });
});

describe("a grant that expired before it was read", () => {
  const second = HOLD.replace(",7,", ",8,").replace(FENCE, "000000000000009");

  test.each([
    ["later", 51],
    ["at once", second],
  ])("is released and the wait continues, with success %s", async (_, again) => {
    next.push(50, again, "1");
    state.isLate = (number) => number === 7;
    const { signal } = new AbortController();
    const waiting = lock(backend, ({ fence }) => fence, { key: "k", signal });
    answer(50, HOLD);
    await vi.waitFor(() => expect(names()).toContain("holdAgain"));
    expect(calls[1]).toEqual(["holdAgain", 7, true, 0]);
    if (again === 51) answer(51, second);
    expect(await waiting).toBe("000000000000009");
    expect(calls.at(-1)).toEqual(["endHold", 8, false, false]);
  });

  test("is repeated as often as needed, until the wait is cancelled", async () => {
    const controller = new AbortController();
    next.push(51, HOLD, HOLD, HOLD, 52);
    state.isLate = () => true;
    const fn = vi.fn();
    const waiting = lock(backend, fn, { key: "k", signal: controller.signal });
    answer(51, HOLD);
    const again = ["holdAgain", "holdAgain", "holdAgain", "holdAgain"];
    await vi.waitFor(() => expect(names()).toEqual(["hold", ...again]));
    controller.abort();
    expect((await rejection(waiting)).code).toBe("Aborted");
    expect(calls.at(-1)).toEqual(["cancel", 52]);
    expect(fn).not.toHaveBeenCalled();
    answer(52, "Z");
  });

  test("counts as locked if there is no wait", async () => {
    next.push(53, "L");
    state.isLate = () => true;
    const trying = tryHold(backend, { key: "k" });
    answer(53, HOLD);
    expect(await trying).toBeNull();
  });

  test("is not checked for a grant that the call returned", async () => {
    next.push(HOLD, "1");
    state.isLate = vi.fn(() => true);
    await lock(backend, () => expect(state.isLate).not.toHaveBeenCalled(), { key: "k" });
  });
});

describe("the hold", () => {
  test("has its latest expiry, also after its end", async () => {
    next.push(HOLD, "1");
    state.expiresAt = 1_800_000_000_000;
    let context;
    await lock(backend, (given) => void (context = given), { key: "k", autoExtend: true });
    expect(context.expiresAtMs).toBe(1_700_000_030_000);
    next.push(HOLD, "1");
    await lock(backend, (given) => expect(given.expiresAtMs).toBe(1_800_000_000_000), { key: "k" });
  });

  test("isHeld() asks the engine for the remaining time", async () => {
    next.push(HOLD, "1");
    let context;
    await lock(
      backend,
      (given) => {
        context = given;
        state.heldFor = () => 500;
        expect([given.isHeld(), given.isHeld(499), given.isHeld(500)]).toEqual([true, true, false]);
        given.throwIfLost();
      },
      { key: "k" },
    );
    expect(context.isHeld()).toBe(false);
    expect(() => context.throwIfLost()).toThrow(expect.objectContaining({ code: "LockLost" }));
  });

  test("extend() extends its lock, by default for the TTL of the config", async () => {
    next.push(HOLD, "11800000000000,9", "2", "1");
    await lock(
      backend,
      async ({ extend }) => {
        expect(await extend()).toEqual({ ok: true, expiresAtMs: 1_800_000_000_000 });
        expect((await extend(5)).ok).toBe(false);
        expect((await rejection(extend("5"))).code).toBe("InvalidArgument");
      },
      { key: "k", ttlMs: 700 },
    );
    expect(calls.slice(1, 3)).toEqual([
      ["extend", LOCK_ID, 700],
      ["extend", LOCK_ID, 5],
    ]);
  });

  test("there is no listener unless the signal is read", async () => {
    next.push(HOLD, "1", HOLD, "1");
    await lock(backend, () => {}, { key: "k" });
    expect(names()).not.toContain("listenHold");
    await lock(backend, ({ signal }) => void signal, { key: "k" });
    expect(calls.filter(([name]) => name === "listenHold")).toEqual([["listenHold", 7, false]]);
  });

  test.each(["early", "late"])("a loss aborts a signal that is read %s", async (when) => {
    next.push(HOLD, "0");
    vi.spyOn(process, "emitWarning").mockImplementation(() => {});
    await lock(
      backend,
      async (context) => {
        if (when === "early") expect(context.signal.aborted).toBe(false);
        Object.assign(state, { heldFor: () => -1, lost: LOST });
        if (when === "early") answer(7, LOST);
        expect(context.signal.reason).toMatchObject({ name: "LockError", code: "LockLost" });
        expect(context.isHeld()).toBe(false);
        expect(() => context.throwIfLost()).toThrow(context.signal.reason);
      },
      { key: "k", autoExtend: true },
    );
    vi.restoreAllMocks();
  });

  test("an unnoticed loss is found at the end, and the lock is released anyway", async () => {
    next.push(HOLD, "!", "0");
    state.lost = LOST;
    const fn = () => Object.assign(state, { heldFor: () => -1 });
    const error = await rejection(lock(backend, fn, { key: "k", throwIfLost: true }));
    expect(error.code).toBe("LockLost");
    expect(calls.slice(1)).toEqual([
      ["endHold", 7, false, false],
      ["endHold", 7, false, true],
    ]);
  });

  test("an event after fn has ended is ignored", async () => {
    next.push(HOLD, "1");
    const signal = await lock(backend, (context) => context.signal, { key: "k" });
    answer(7, LOST);
    expect(signal.aborted).toBe(false);
  });

  test("a failed release is reported with its code, and fn's value is returned", async () => {
    const onReleaseError = vi.fn();
    next.push(HOLD, DENIED);
    expect(await lock(backend, () => 1, { key: "k", onReleaseError })).toBe(1);
    expect(onReleaseError).toHaveBeenCalledExactlyOnceWith(
      expect.objectContaining({ code: "AuthFailed" }),
      { lockId: LOCK_ID, key: "k", source: "disposal" },
    );
  });
});

test("telemetry: one event for the wait, each heartbeat, the loss and the end", async () => {
  const events = [];
  const observed = withTelemetry(backend, { onEvent: (event) => events.push(event) });
  next.push(53, "2");
  const holding = hold(observed, { key: "k", autoExtend: true, name: "report" });
  answer(53, HOLD);
  const held = await holding;
  expect(calls.at(-1)).toEqual(["listenHold", 7, true]);
  answer(7, "B", 7, `B${DENIED}`, 7, LOST);
  expect(await held.release()).toEqual({ ok: false });
  answer(7, "B");
  const hashes = { keyHash: "hash of k", lockIdHash: `hash of ${LOCK_ID}` };
  const common = { ...hashes, backend: "fake", name: "report" };
  const durationMs = expect.any(Number);
  expect(events).toEqual([
    { type: "acquire", result: "ok", ...common, durationMs, attempts: 3, waitMs: 250 },
    { type: "heartbeat", result: "ok", ...common },
    { type: "heartbeat", result: "fail", code: "AuthFailed", ...common },
    expect.objectContaining({ type: "lost", result: "fail", code: "LockLost", ...common }),
    expect.objectContaining({ type: "release", result: "fail", reason: "expired", ...common }),
  ]);
  expect(events.at(-1)).toMatchObject({ durationMs, heldMs: expect.any(Number) });
});
