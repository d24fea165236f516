import { getEventListeners } from "node:events";
import { describe, expect, test, vi } from "vitest";
import { checkAborted } from "../../js/common.js";
import { offAbort, onAbort } from "../../js/base/signal.js";

describe("checkAborted", () => {
  test("does nothing without a signal or with one that is not aborted", () => {
    checkAborted();
    checkAborted(undefined);
    checkAborted(new AbortController().signal);
  });

  test("throws Aborted with the signal's reason as its cause", () => {
    const cause = new Error("shutting down");
    expect(() => checkAborted(AbortSignal.abort(cause))).toThrow(
      expect.objectContaining({ code: "Aborted", message: "Operation aborted by signal", cause }),
    );
  });

  test("accepts a signal of another realm or a polyfill", () => {
    const shape = { addEventListener() {}, removeEventListener() {} };
    checkAborted({ ...shape, aborted: false });
    expect(() => checkAborted({ ...shape, aborted: true, reason: "r" })).toThrow(
      expect.objectContaining({ code: "Aborted", cause: "r" }),
    );
  });

  const thrower = new Proxy(
    {},
    {
      get() {
        throw new Error("hostile");
      },
    },
  );
  test.each([
    null,
    0,
    1,
    "signal",
    true,
    Symbol("s"),
    {},
    { aborted: true },
    [],
    () => {},
    thrower,
  ])("value %# is not a signal", (value) => {
    expect(() => checkAborted(value)).toThrow(
      expect.objectContaining({
        code: "InvalidArgument",
        message: "signal must be an AbortSignal",
      }),
    );
  });

  test("a reason that cannot be read does not hide the abort", () => {
    const signal = {
      aborted: true,
      addEventListener() {},
      removeEventListener() {},
      get reason() {
        throw new Error("hostile");
      },
    };
    expect(() => checkAborted(signal)).toThrow(expect.objectContaining({ code: "Aborted" }));
  });
});

describe("listening", () => {
  test("one listener serves all callbacks, and is removed with the last", () => {
    const { signal } = new AbortController();
    const callbacks = Array.from({ length: 50 }, () => vi.fn());
    for (const callback of callbacks) onAbort(signal, callback);
    expect(getEventListeners(signal, "abort")).toHaveLength(1);
    for (const callback of callbacks) offAbort(signal, callback);
    expect(getEventListeners(signal, "abort")).toHaveLength(0);
    offAbort(signal, callbacks[0]);
  });

  test("all callbacks are called, even if the first one removes itself", () => {
    const controller = new AbortController();
    const { signal } = controller;
    const first = vi.fn(() => offAbort(signal, first));
    const second = vi.fn(() => offAbort(signal, second));
    onAbort(signal, first);
    onAbort(signal, second);
    controller.abort();
    expect(first).toHaveBeenCalledTimes(1);
    expect(second).toHaveBeenCalledTimes(1);
    expect(getEventListeners(signal, "abort")).toHaveLength(0);
  });

  test("a removed callback is not called", () => {
    const controller = new AbortController();
    const gone = vi.fn();
    const there = vi.fn();
    onAbort(controller.signal, gone);
    onAbort(controller.signal, there);
    offAbort(controller.signal, gone);
    controller.abort();
    expect(gone).not.toHaveBeenCalled();
    expect(there).toHaveBeenCalledTimes(1);
  });
});
