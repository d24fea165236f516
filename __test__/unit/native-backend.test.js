import { getEventListeners } from "node:events";
import { beforeEach, describe, expect, test, vi } from "vitest";
import { FAILURE_REASON } from "../../js/base/constants.js";
import { getByKeyRaw } from "../../js/index.js";
import { createNativeBackend } from "../../js/native/backend.js";
import { answer, calls, DENIED, FENCE, GRANT, LOCK_ID, next, reset, state } from "./fake-native.js";
import { rejection } from "./support.js";

vi.mock("../../js/native/addon.js", () => import("./fake-native.js"));

const CAPABILITIES = { backend: "fake", supportsFencing: true, timeAuthority: "server" };
const make = (options) => createNativeBackend("fake", { path: "p" }, options, CAPABILITIES);

const names = () => calls.map(([name]) => name);

let backend;
beforeEach(() => {
  reset();
  backend = make();
  calls.length = 0;
});

describe("opening", () => {
  test("passes the configuration on as JSON", () => {
    make();
    expect(calls).toEqual([["open", "fake", '{"path":"p"}', 0, undefined]]);
  });

  test("throws the error of the native side", () => {
    state.refusal = DENIED;
    expect(() => make()).toThrow(
      expect.objectContaining({ name: "LockError", code: "AuthFailed" }),
    );
  });

  test("checks the shared options before anything is opened", () => {
    expect(() => make({ disposeTimeoutMs: -1 })).toThrow(/disposeTimeoutMs/);
    expect(calls).toEqual([]);
  });

  test("capabilities cannot be changed", () => {
    expect(backend.capabilities).toEqual(CAPABILITIES);
    expect(Object.isFrozen(backend.capabilities)).toBe(true);
  });
});

describe("replies", () => {
  test("a granted lock", async () => {
    next.push(GRANT, "1");
    const held = await backend.acquire({ key: "k", ttlMs: 30_000 });
    expect(held).toMatchObject({
      ok: true,
      lockId: LOCK_ID,
      fence: FENCE,
      expiresAtMs: 1_700_000_030_000,
    });
    expect(await held.release()).toEqual({ ok: true });
    expect(calls).toEqual([
      ["acquire", "k", 30_000, false, 0],
      ["release", LOCK_ID, "k"],
    ]);
  });

  test("a locked key", async () => {
    next.push("L");
    expect(await backend.acquire({ key: "k", ttlMs: 1 })).toMatchObject({
      ok: false,
      reason: "locked",
    });
  });

  test("releases and extensions, with the reason of a failure", async () => {
    next.push("1", "0", "2", "11700000000000,31000", "0", "2");
    const lockId = LOCK_ID;
    expect(await backend.release({ lockId })).toEqual({ ok: true });
    const reasonOf = async (result) => (await result)[FAILURE_REASON].reason;
    expect(await reasonOf(backend.release({ lockId }))).toBe("not-found");
    expect(await reasonOf(backend.release({ lockId }))).toBe("expired");
    expect(await backend.extend({ lockId, ttlMs: 5 })).toEqual({
      ok: true,
      expiresAtMs: 1_700_000_000_000,
    });
    expect(await reasonOf(backend.extend({ lockId, ttlMs: 5 }))).toBe("not-found");
    expect(await reasonOf(backend.extend({ lockId, ttlMs: 5 }))).toBe("expired");
    expect(calls[0]).toEqual(["release", LOCK_ID, null]);
    expect(calls[3]).toEqual(["extend", LOCK_ID, 5]);
  });

  test("isLocked", async () => {
    next.push("1", "0");
    expect(await backend.isLocked({ key: "k" })).toBe(true);
    expect(await backend.isLocked({ key: "k" })).toBe(false);
  });

  test("a lookup, with a key that has commas", async () => {
    next.push(`I${LOCK_ID}${FENCE}1700000030000,1700000000000,,\na,b`, "0");
    expect(await getByKeyRaw(backend, "a,b")).toEqual({
      key: "a,b",
      lockId: LOCK_ID,
      keyHash: "hash of a,b",
      lockIdHash: `hash of ${LOCK_ID}`,
      expiresAtMs: 1_700_000_030_000,
      acquiredAtMs: 1_700_000_000_000,
      fence: FENCE,
    });
    expect(await backend.lookup({ lockId: LOCK_ID })).toBeNull();
    expect(calls).toEqual([
      ["lookupKey", "a,b"],
      ["lookupId", LOCK_ID],
    ]);
  });

  const CALLS = [
    ["acquire", { key: "k", ttlMs: 1 }],
    ["release", { lockId: LOCK_ID }],
    ["extend", { lockId: LOCK_ID, ttlMs: 1 }],
    ["isLocked", { key: "k" }],
    ["lookup", { key: "k" }],
    ["lookup", { lockId: LOCK_ID }],
    ["close", undefined],
  ];
  test.each(CALLS)("an error of %s(%o) is thrown with its context", async (name, opts) => {
    next.push(DENIED);
    const error = await rejection(backend[name](opts));
    expect(error).toMatchObject({ code: "AuthFailed", message: "no" });
    const { ttlMs, ...about } = opts ?? {};
    expect(error.context).toEqual(about);
  });

  test.each(CALLS.slice(0, -1))(
    "a reply that %s(%o) does not know is an error",
    async (name, opts) => {
      for (const unknown of ["", "?", "Z", "B"]) {
        next.push(unknown);
        expect(await rejection(backend[name](opts))).toMatchObject({ code: "Internal" });
      }
    },
  );

  test("replies that come later, several at once and in any order", async () => {
    next.push(11, 12, 13);
    const results = Promise.all([
      backend.acquire({ key: "k", ttlMs: 1 }),
      backend.isLocked({ key: "k" }),
      backend.close(),
    ]);
    answer(13, "1", 12, "0", 11, GRANT);
    expect(await results).toEqual([expect.objectContaining({ lockId: LOCK_ID }), false, undefined]);
  });

  test("a warning is printed", () => {
    const warn = vi.spyOn(console, "warn").mockImplementation(() => {});
    answer(0, "Wsomething to know");
    expect(warn).toHaveBeenCalledExactlyOnceWith("[SyncGuard] something to know");
    warn.mockRestore();
  });
});

describe("abort", () => {
  const reason = new Error("enough");

  test("before the call: nothing is sent", async () => {
    const signal = AbortSignal.abort(reason);
    for (const [name, opts] of [
      ["acquire", { key: "k", ttlMs: 1 }],
      ["release", { lockId: LOCK_ID }],
      ["extend", { lockId: LOCK_ID, ttlMs: 1 }],
      ["isLocked", { key: "k" }],
      ["lookup", { key: "k" }],
    ]) {
      const error = await rejection(backend[name]({ ...opts, signal }));
      expect(error).toMatchObject({ code: "Aborted", cause: reason });
    }
    expect(calls).toEqual([]);
  });

  test("in flight: rejects at once, cancels, and removes its listener", async () => {
    const controller = new AbortController();
    next.push(21);
    const acquiring = backend.acquire({ key: "k", ttlMs: 1, signal: controller.signal });
    expect(calls).toEqual([["acquire", "k", 1, true, 0]]);
    controller.abort(reason);
    expect(await rejection(acquiring)).toMatchObject({ code: "Aborted", cause: reason });
    expect(calls[1]).toEqual(["cancel", 21]);
    answer(21, "Z");
    expect(getEventListeners(controller.signal, "abort")).toHaveLength(0);
  });

  test("a reply after the abort is ignored, because the native side undoes it", async () => {
    const controller = new AbortController();
    next.push(22);
    const acquiring = backend.acquire({ key: "k", ttlMs: 1, signal: controller.signal });
    controller.abort();
    await rejection(acquiring);
    answer(22, `~${DENIED}`);
    answer(22, "Z");
    expect(names()).toEqual(["acquire", "cancel"]);
  });

  test("a reply that was in time counts, and the listener is removed", async () => {
    const controller = new AbortController();
    next.push(23);
    const acquiring = backend.acquire({ key: "k", ttlMs: 1, signal: controller.signal });
    answer(23, "L");
    expect(getEventListeners(controller.signal, "abort")).toHaveLength(0);
    controller.abort();
    expect((await acquiring).ok).toBe(false);
  });

  test("a signal whose addEventListener throws", async () => {
    const cause = new Error("hostile");
    const signal = {
      aborted: false,
      removeEventListener() {},
      addEventListener() {
        throw cause;
      },
    };
    next.push(24);
    const error = await rejection(backend.acquire({ key: "k", ttlMs: 1, signal }));
    expect(error).toMatchObject({ code: "InvalidArgument", cause });
    expect(calls.at(-1)).toEqual(["cancel", 24]);
    answer(24, "Z");
  });
});

describe("staying alive", () => {
  test("a pending operation keeps the process alive until its final reply", async () => {
    const timers = () =>
      process.getActiveResourcesInfo().filter((resource) => resource === "Timeout").length;
    const idle = timers();
    next.push(31, 32);
    const first = backend.isLocked({ key: "k" });
    const second = backend.isLocked({ key: "k" });
    expect(timers()).toBe(idle + 1);
    answer(31, "1");
    await first;
    expect(timers()).toBe(idle + 1);
    // The caller has its answer, and the work continues.
    answer(32, "~0");
    expect(await second).toBe(false);
    expect(timers()).toBe(idle + 1);
    answer(32, "Z");
    expect(timers()).toBe(idle);
  });
});
