// Edge cases of handles over custom backends.

import { afterEach, describe, expect, test, vi } from "vitest";
import { acquireHandle, createDisposableHandle, decorateAcquireResult } from "../../js/index.js";
import { LOCK_ID, rejection, scripted } from "./support.js";

afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllEnvs();
  vi.useRealTimers();
});

const granted = { ok: true, lockId: LOCK_ID, expiresAtMs: 1, fence: "000000000000001" };

describe("a release with an unusable signal", () => {
  test.each([
    ["an aborted signal", AbortSignal.abort(), "Aborted"],
    ["no signal at all", {}, "InvalidArgument"],
    ["null", null, "InvalidArgument"],
  ])("%s: it does not count as the handle's release", async (_, signal, code) => {
    const backend = scripted();
    const handle = decorateAcquireResult(backend, granted, "k");
    expect((await rejection(handle.release(signal))).code).toBe(code);
    expect(backend.calls).toEqual([]);
    await handle[Symbol.asyncDispose]();
    expect(backend.names()).toEqual(["release"]);
  });
});

describe("disposeTimeoutMs", () => {
  test("also limits the wait for a release that is already in flight", async () => {
    vi.useFakeTimers();
    const onReleaseError = vi.fn();
    const backend = scripted({ release: () => new Promise(() => {}) });
    const handle = decorateAcquireResult(backend, granted, "k", onReleaseError, 50);
    handle.release();
    const disposed = handle[Symbol.asyncDispose]();
    await vi.advanceTimersByTimeAsync(50);
    await disposed;
    expect(onReleaseError).toHaveBeenCalledExactlyOnceWith(
      expect.objectContaining({ name: "LockError", code: "NetworkTimeout" }),
      { lockId: LOCK_ID, key: "k", source: "disposal" },
    );
    expect(backend.names()).toEqual(["release"]);
  });

  test("aborts the backend's release, and ignores its late failure", async () => {
    vi.useFakeTimers();
    const onReleaseError = vi.fn();
    let fail;
    const backend = scripted({ release: () => new Promise((_, reject) => (fail = reject)) });
    const handle = decorateAcquireResult(backend, granted, "k", onReleaseError, 50);
    const disposed = handle[Symbol.asyncDispose]();
    const { signal } = backend.calls[0][1];
    expect(signal.aborted).toBe(false);
    await vi.advanceTimersByTimeAsync(50);
    await disposed;
    expect(signal.aborted).toBe(true);
    fail(new Error("late"));
    await vi.advanceTimersByTimeAsync(0);
    expect(onReleaseError).toHaveBeenCalledTimes(1);
    expect(vi.getTimerCount()).toBe(0);
  });
});

describe("the log of a failed disposal", () => {
  async function logged(error, key = "order:7") {
    vi.stubEnv("NODE_ENV", "test");
    const log = vi.spyOn(console, "error").mockImplementation(() => {});
    const backend = scripted({ release: () => Promise.reject(error) });
    await decorateAcquireResult(backend, granted, key)[Symbol.asyncDispose]();
    expect(log).toHaveBeenCalledTimes(1);
    const [text, details] = log.mock.calls[0];
    expect(text).toBe("[SyncGuard] Lock disposal failed:");
    return details;
  }

  test("redacts the key and the lockId in the message of a custom backend", async () => {
    const details = await logged(new RangeError(`order:7 (${LOCK_ID}) is gone`));
    expect(details).toEqual({
      error: "[redacted] ([redacted]) is gone",
      errorName: "RangeError",
      source: "disposal",
    });
  });

  test("accepts an empty key and a message that is not a string", async () => {
    expect((await logged(new Error("plain"), "")).error).toBe("plain");
    const odd = Object.assign(new Error(), { message: 7 });
    vi.restoreAllMocks();
    expect((await logged(odd)).error).toBe("7");
  });

  test("an error that cannot be printed does not break the disposal", async () => {
    vi.stubEnv("NODE_ENV", "test");
    vi.spyOn(console, "error").mockImplementation(() => {});
    const hostile = Object.defineProperty(new Error(), "message", {
      get() {
        throw new Error("hostile");
      },
    });
    const backend = scripted({ release: () => Promise.reject(hostile) });
    const handle = decorateAcquireResult(backend, granted, "k");
    await expect(handle[Symbol.asyncDispose]()).resolves.toBeUndefined();
  });
});

describe("any backend", () => {
  test("methods can be destructured, and the result can be spread", async () => {
    const backend = scripted();
    const { extend, release } = { ...decorateAcquireResult(backend, granted, "k") };
    expect((await extend(5)).ok).toBe(true);
    expect(await release()).toEqual({ ok: true });
    expect(backend.calls).toEqual([
      ["extend", { lockId: LOCK_ID, ttlMs: 5 }],
      ["release", { lockId: LOCK_ID }],
    ]);
  });

  test("operations that throw synchronously reject", async () => {
    const boom = () => {
      throw new Error("boom");
    };
    const handle = createDisposableHandle(scripted({ release: boom, extend: boom }), granted, "k");
    expect((await rejection(handle.extend(5))).message).toBe("boom");
    expect((await rejection(handle.release())).message).toBe("boom");
  });

  test("a handle of the backend's own is kept", async () => {
    const own = { ...granted, [Symbol.asyncDispose]: async () => {} };
    const backend = scripted({ acquire: async () => own });
    expect(await acquireHandle(backend, { key: "k", ttlMs: 1 })).toBe(own);
  });

  test("wrong arguments are refused", async () => {
    const invalid = expect.objectContaining({ name: "LockError", code: "InvalidArgument" });
    expect(await rejection(acquireHandle(null, { key: "k", ttlMs: 1 }))).toEqual(invalid);
    const silent = scripted({ acquire: async () => undefined });
    expect(await rejection(acquireHandle(silent, { key: "k", ttlMs: 1 }))).toEqual(invalid);
    expect(() => decorateAcquireResult({}, granted, "k")).toThrow(invalid);
    expect(() => decorateAcquireResult(scripted(), null, "k")).toThrow(invalid);
    expect(() => createDisposableHandle(scripted(), granted, "k", 1)).toThrow(invalid);
    expect(() => createDisposableHandle(scripted(), granted, "k", () => {}, -1)).toThrow(invalid);
  });
});
