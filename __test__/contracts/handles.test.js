// Disposal over a backend whose release can be made to fail, to hang and to be counted.

import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import {
  LockError,
  acquireHandle,
  createDisposableHandle,
  decorateAcquireResult,
} from "../fixtures/api.js";
import { failing, granted, stub } from "../fixtures/stub-backend.js";
import { deferred, turn } from "../fixtures/wait.js";
import { rejection } from "./setup.js";

const KEY = "the-secret-key";

describe("at most one release per handle", () => {
  test("the second release and dispose make no call", async () => {
    const backend = stub();
    const result = granted();
    const handle = decorateAcquireResult(backend, result, KEY);
    expect(await handle.release()).toEqual({ ok: true });
    expect(await handle.release()).toEqual({ ok: false });
    await handle[Symbol.asyncDispose]();
    expect(backend.calls.map((call) => call.lockId)).toEqual([result.lockId]);
  });

  test("dispose, then release", async () => {
    const backend = stub();
    const handle = decorateAcquireResult(backend, granted(), KEY);
    await handle[Symbol.asyncDispose]();
    expect(await handle.release()).toEqual({ ok: false });
    await handle[Symbol.asyncDispose]();
    expect(backend.calls).toHaveLength(1);
  });

  test("dispose waits for a release in flight and makes no second one", async () => {
    const gate = deferred();
    const backend = stub(() => gate.promise);
    const handle = decorateAcquireResult(backend, granted(), KEY);
    const order = [];
    const released = handle.release().then(() => order.push("released"));
    const disposed = handle[Symbol.asyncDispose]().then(() => order.push("disposed"));
    await turn();
    expect(order).toEqual([]);
    gate.resolve({ ok: true });
    await Promise.all([released, disposed]);
    expect(order).toEqual(["released", "disposed"]);
    expect(backend.calls).toHaveLength(1);
  });

  test("dispose during a release that fails: the release rejects, the dispose does not", async () => {
    const backend = failing(new Error("down"));
    const handle = decorateAcquireResult(backend, granted(), KEY, () => {});
    const [released, disposed] = await Promise.allSettled([
      handle.release(),
      handle[Symbol.asyncDispose](),
    ]);
    expect(released.status).toBe("rejected");
    expect(disposed.status).toBe("fulfilled");
    expect(backend.calls).toHaveLength(1);
  });

  test("extend is not guarded", async () => {
    const backend = stub();
    const extend = vi.spyOn(backend, "extend");
    const handle = decorateAcquireResult(backend, granted(), KEY);
    await handle.extend(1000);
    await handle.release();
    await handle.extend(1000);
    expect(extend).toHaveBeenCalledTimes(2);
  });

  test("signals are passed on to the backend", async () => {
    const backend = stub();
    const extend = vi.spyOn(backend, "extend");
    const handle = decorateAcquireResult(backend, granted(), KEY);
    const { signal } = new AbortController();
    await handle.extend(1000, signal);
    await handle.release(signal);
    expect(extend.mock.calls[0][0].signal).toBe(signal);
    expect(backend.calls[0].signal).toBe(signal);
  });

  test("a refused result gets methods that call nothing", async () => {
    const backend = stub();
    const handle = decorateAcquireResult(backend, { ok: false, reason: "locked" }, KEY);
    expect(handle.reason).toBe("locked");
    expect(await handle.release()).toEqual({ ok: false });
    expect(await handle.extend(1000)).toEqual({ ok: false });
    await handle[Symbol.asyncDispose]();
    expect(backend.calls).toEqual([]);
  });

  test("createDisposableHandle and acquireHandle follow the same rules", async () => {
    const backend = stub();
    const made = createDisposableHandle(backend, granted(), KEY);
    await made.release();
    await made[Symbol.asyncDispose]();
    const acquired = await acquireHandle(backend, { key: KEY, ttlMs: 1000 });
    await acquired[Symbol.asyncDispose]();
    await acquired.release();
    expect(backend.calls).toHaveLength(2);
  });
});

describe("a release that fails", () => {
  test("in release() the error is thrown unchanged", async () => {
    const down = new LockError("ServiceUnavailable", "down");
    const handle = decorateAcquireResult(failing(down), granted(), KEY, () => {
      throw new Error("not for a manual release");
    });
    expect(await rejection(handle.release())).toBe(down);
  });

  test("in dispose it goes to onReleaseError, with its context", async () => {
    const down = new LockError("ServiceUnavailable", "down");
    const seen = [];
    const result = granted();
    const handle = decorateAcquireResult(failing(down), result, KEY, (...args) => seen.push(args));
    expect(await handle[Symbol.asyncDispose]()).toBeUndefined();
    expect(seen).toEqual([[down, { lockId: result.lockId, key: KEY, source: "disposal" }]]);
  });

  test("a thrown value that is not an Error becomes one", async () => {
    const seen = [];
    const handle = decorateAcquireResult(failing("just text"), granted(), KEY, (error) =>
      seen.push(error),
    );
    await handle[Symbol.asyncDispose]();
    expect(seen[0]).toBeInstanceOf(Error);
    expect(seen[0].message).toContain("just text");
  });

  test("a release that throws synchronously is treated like one that rejects", async () => {
    const seen = [];
    const backend = stub(() => {
      throw new Error("at once");
    });
    const handle = decorateAcquireResult(backend, granted(), KEY, (error) =>
      seen.push(error.message),
    );
    await handle[Symbol.asyncDispose]();
    expect(seen).toEqual(["at once"]);
  });

  test("dispose does not throw if the callback throws or rejects", async () => {
    const unhandled = [];
    const onUnhandled = (error) => unhandled.push(error);
    process.on("unhandledRejection", onUnhandled);
    const callbacks = [
      () => {
        throw new Error("callback");
      },
      () => Promise.reject(new Error("callback")),
    ];
    for (const callback of callbacks) {
      const handle = decorateAcquireResult(failing(new Error("down")), granted(), KEY, callback);
      expect(await handle[Symbol.asyncDispose]()).toBeUndefined();
    }
    await turn();
    process.off("unhandledRejection", onUnhandled);
    expect(unhandled).toEqual([]);
  });
});

describe("disposeTimeoutMs", () => {
  test("limits the wait for a release that hangs, and reports the timeout", async () => {
    const seen = [];
    const backend = stub(() => new Promise(() => {}));
    const handle = decorateAcquireResult(
      backend,
      granted(),
      KEY,
      (error, context) => {
        seen.push([error, context]);
      },
      20,
    );
    await handle[Symbol.asyncDispose]();
    expect(seen).toHaveLength(1);
    expect(seen[0][0]).toBeInstanceOf(Error);
    expect(seen[0][0].message).not.toContain(KEY);
    expect(seen[0][1].source).toBe("disposal");
    expect(backend.calls[0].signal.aborted).toBe(true);
  });

  test("is not used by a manual release", async () => {
    const gate = deferred();
    const backend = stub(() => gate.promise);
    const handle = decorateAcquireResult(backend, granted(), KEY, undefined, 1);
    const released = handle.release();
    await new Promise((resolve) => setTimeout(resolve, 30));
    gate.resolve({ ok: true });
    expect(await released).toEqual({ ok: true });
  });

  test("changes nothing if the release finishes in time", async () => {
    const seen = [];
    const backend = stub();
    const handle = decorateAcquireResult(backend, granted(), KEY, (e) => seen.push(e), 60_000);
    await handle[Symbol.asyncDispose]();
    expect(seen).toEqual([]);
    expect(backend.calls[0].signal.aborted).toBe(false);
  });
});

describe("the log, when there is no onReleaseError", () => {
  let error;
  beforeEach(() => {
    error = vi.spyOn(console, "error").mockImplementation(() => {});
  });
  afterEach(() => {
    vi.restoreAllMocks();
    vi.unstubAllEnvs();
  });

  const disposeFailing = async (...callback) => {
    const result = granted();
    const down = new LockError("ServiceUnavailable", "down", { key: KEY, lockId: result.lockId });
    await decorateAcquireResult(failing(down), result, KEY, ...callback)[Symbol.asyncDispose]();
    return result;
  };

  test("outside production it shows the error without the key and the lockId", async () => {
    const { inspect } = await import("node:util");
    vi.stubEnv("NODE_ENV", "development");
    const { lockId } = await disposeFailing();
    expect(error).toHaveBeenCalledTimes(1);
    expect(error.mock.calls[0][0]).toBe("[SyncGuard] Lock disposal failed:");
    const printed = error.mock.calls[0].map((part) => inspect(part, { depth: 10 })).join(" ");
    expect(printed).toContain("down");
    expect(printed).not.toContain(KEY);
    expect(printed).not.toContain(lockId);
  });

  test.each([
    ["", undefined, 1],
    ["test", undefined, 1],
    ["production", undefined, 0],
    ["production", "false", 0],
    ["production", "1", 0],
    ["production", "true", 1],
  ])("NODE_ENV=%s SYNCGUARD_DEBUG=%s: %i lines", async (environment, debug, lines) => {
    vi.stubEnv("NODE_ENV", environment);
    vi.stubEnv("SYNCGUARD_DEBUG", debug);
    await disposeFailing();
    expect(error).toHaveBeenCalledTimes(lines);
  });

  test("with a callback nothing is logged", async () => {
    vi.stubEnv("NODE_ENV", "development");
    await disposeFailing(() => {});
    expect(error).not.toHaveBeenCalled();
  });
});
