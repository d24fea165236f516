// lock() and similar functions, with a backend and without. Also listLocks() and forceRelease().

import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import {
  forceRelease,
  hashKey,
  hold,
  lead,
  listLocks,
  lock,
  tryHold,
  tryLock,
  withTelemetry,
} from "../../js/index.js";
import { createMemoryBackend } from "../../js/memory.js";
import { until } from "../fixtures/wait.js";
import { rejection, scripted } from "./support.js";

const invalid = { name: "LockError", code: "InvalidArgument" };
const withFunction = { lock, tryLock, lead };
const withoutFunction = { hold, tryHold };

let keys = 0;
const newKey = () => `form:${(keys += 1)}`;

beforeEach(() => void vi.stubEnv("SYNCGUARD_URL", "memory:"));
afterEach(() => void vi.unstubAllEnvs());

describe.each(Object.entries(withFunction))("%s", (name, form) => {
  const valueOf = (result) => (name === "tryLock" ? result.value : result);

  test("works with and without a backend", async () => {
    const backend = createMemoryBackend();
    const fn = vi.fn(async ({ fence }) => fence);
    const first = "000000000000001";
    const config = { key: newKey() };
    expect(valueOf(await form(backend, fn, config))).toBe(first);
    expect(await backend.isLocked(config)).toBe(false);
    // The default backend has not seen this lock.
    expect(valueOf(await form(fn, config))).toBe(first);
    expect(valueOf(await form(fn, config))).toBe("000000000000002");
    expect(fn).toHaveBeenCalledTimes(3);
  });

  test.each([
    ["nothing", []],
    ["a function only", [() => {}]],
    ["a config only", [{ key: "k" }]],
    ["a backend only", [scripted()]],
    ["a backend and a function", [scripted(), () => {}]],
    ["a backend and a config", [scripted(), { key: "k" }]],
    ["a backend, a config, a function", [scripted(), { key: "k" }, () => {}]],
    ["two functions", [() => {}, () => {}]],
    ["no backend", [undefined, () => {}, { key: "k" }]],
    ["null for a backend", [null, () => {}, { key: "k" }]],
    ["what is no backend", [{}, () => {}, { key: "k" }]],
    ["a backend that cannot release", [{ acquire() {} }, () => {}, { key: "k" }]],
    ["a URL", ["memory:", () => {}, { key: "k" }]],
  ])("%s: rejects instead of throwing", async (_, args) => {
    const started = form(...args);
    expect(started).toBeInstanceOf(Promise);
    expect(await rejection(started)).toMatchObject(invalid);
  });
});

describe.each(Object.entries(withoutFunction))("%s", (_, form) => {
  test("works with and without a backend", async () => {
    const backend = createMemoryBackend();
    const config = { key: newKey() };
    const here = await form(backend, config);
    const there = await form(config);
    expect([here.fence, there.fence]).toEqual(["000000000000001", "000000000000001"]);
    expect(await tryHold(backend, config)).toBeNull();
    expect(await tryHold(config)).toBeNull();
    await here.release();
    await there[Symbol.asyncDispose]();
    expect(await backend.isLocked(config)).toBe(false);
    await (await form(config)).release();
  });

  test.each([
    ["nothing", []],
    ["a backend only", [scripted()]],
    ["a backend and undefined", [scripted(), undefined]],
    ["no backend", [undefined, { key: "k" }]],
    ["null for a backend", [null, { key: "k" }]],
    ["what is no backend", [{}, { key: "k" }]],
    ["a function, as for lock()", [() => {}, { key: "k" }]],
    ["a URL", ["memory:", { key: "k" }]],
  ])("%s: rejects instead of throwing", async (_, args) => {
    const started = form(...args);
    expect(started).toBeInstanceOf(Promise);
    expect(await rejection(started)).toMatchObject(invalid);
  });
});

test("only autoExtend needs a backend that can extend", async () => {
  const { extend, ...backend } = scripted();
  expect(await lock(backend, () => "done", { key: "k" })).toBe("done");
  const config = { key: "k", autoExtend: true };
  for (const started of [
    lock(backend, () => {}, config),
    hold(backend, config),
    lead(backend, () => {}, { key: "k" }),
  ]) {
    expect((await rejection(started)).message).toContain("acquire, release, extend");
  }
});

test("tryLock distinguishes a result of fn from a busy lock", async () => {
  const backend = createMemoryBackend();
  const config = { key: newKey() };
  const inner = await tryLock(backend, () => tryLock(backend, () => "never", config), config);
  expect(inner).toEqual({ ok: true, value: { ok: false, reason: "locked" } });
  const error = new Error("fn");
  expect(await rejection(tryLock(backend, () => Promise.reject(error), config))).toBe(error);
  expect(await backend.isLocked(config)).toBe(false);
});

test("a memory lock reaches its next waiter within one turn of the event loop", async () => {
  const backend = createMemoryBackend();
  const config = { key: newKey() };
  const first = await hold(backend, config);
  let isNext = true;
  const turn = setImmediate(() => (isNext = false));
  const second = hold(backend, config);
  await first.release();
  const next = await second;
  expect(next.fence).toBe("000000000000002");
  expect(isNext).toBe(true);
  clearImmediate(turn);
  await next.release();
  await backend.close();
});

describe("a held lock", () => {
  test("has the fields of the context, and methods to release it", async () => {
    const held = await hold(createMemoryBackend(), { key: newKey(), ttlMs: 60_000 });
    const { release, extend, isHeld, throwIfLost } = held;
    expect(held.lockId).toHaveLength(22);
    expect(held.expiresAtMs).toBeGreaterThan(Date.now() + 50_000);
    expect((await extend(90_000)).expiresAtMs).toBe(held.expiresAtMs);
    expect(isHeld(80_000)).toBe(true);
    throwIfLost();
    expect(await release()).toEqual({ ok: true });
    expect(await release()).toEqual({ ok: false });
    expect(await extend()).toEqual({ ok: false });
    expect(isHeld()).toBe(false);
    expect(throwIfLost).toThrow(expect.objectContaining({ code: "LockLost" }));
    expect(held.signal.aborted).toBe(false);
  });

  test("is released at the end of its scope, and a failure goes to the callback", async () => {
    const onReleaseError = vi.fn();
    const down = new Error("down");
    const backend = scripted({ release: () => Promise.reject(down) });
    const held = await hold(backend, { key: "k", onReleaseError });
    await held[Symbol.asyncDispose]();
    expect(onReleaseError).toHaveBeenCalledExactlyOnceWith(down, {
      ...{ key: "k", lockId: held.lockId, source: "disposal" },
    });
    const again = await hold(backend, { key: "k", onReleaseError });
    expect(await rejection(again.release())).toBe(down);
    await again[Symbol.asyncDispose]();
    expect(onReleaseError).toHaveBeenCalledTimes(1);
  });
});

const all = async (iterator) => {
  const found = [];
  for await (const info of iterator) found.push(info);
  return found;
};

describe("listLocks", () => {
  const fill = async (count) => {
    const backend = createMemoryBackend();
    const held = [];
    for (let i = 0; i < count; i += 1) {
      held.push(await backend.acquire({ key: `k:${i}`, ttlMs: 60_000 }));
    }
    return { backend, held };
  };

  test("shows hashes, and with raw keys and lockIds", async () => {
    const { backend, held } = await fill(1);
    const [{ lockId, expiresAtMs, fence }] = held;
    const shown = {
      ...{ keyHash: hashKey("k:0"), lockIdHash: hashKey(lockId), fence, expiresAtMs },
      acquiredAtMs: expiresAtMs - 60_000,
      mode: "exclusive",
    };
    expect(await all(listLocks(backend))).toEqual([shown]);
    expect(await all(listLocks(backend, { raw: true }))).toEqual([
      { ...shown, key: "k:0", lockId },
    ]);
    const observed = withTelemetry(backend, { onEvent() {} });
    expect(await all(listLocks(observed))).toEqual([shown]);
  });

  test("reads all pages, up to the limit", async () => {
    const { backend } = await fill(250);
    const keyHashes = async (options) =>
      new Set((await all(listLocks(backend, options))).map(({ keyHash }) => keyHash)).size;
    expect(await keyHashes(undefined)).toBe(250);
    expect(await keyHashes(null)).toBe(250);
    for (const limit of [0, 1, 100, 101, 249, 251, Infinity]) {
      expect(await keyHashes({ limit })).toBe(Math.min(limit, 250));
    }
  });

  test("wrong input rejects when the first lock is requested", async () => {
    const backend = createMemoryBackend();
    const cause = new Error("getter");
    const hostile = Object.defineProperty({}, "limit", {
      get() {
        throw cause;
      },
    });
    for (const args of [
      [undefined],
      [null],
      [{}],
      [scripted()],
      [backend, { limit: -1 }],
      [backend, { limit: 1.5 }],
      [backend, { limit: "5" }],
      [backend, { limit: NaN }],
      [backend, { raw: 1 }],
      [backend, { signal: {} }],
      [backend, hostile],
    ]) {
      expect(await rejection(listLocks(...args).next())).toMatchObject(invalid);
    }
    expect((await rejection(listLocks(backend, hostile).next())).cause).toBe(cause);
  });

  test("ends when its signal aborts, also between two pages", async () => {
    const { backend } = await fill(150);
    const aborted = listLocks(backend, { signal: AbortSignal.abort("why") });
    expect(await rejection(aborted.next())).toMatchObject({ code: "Aborted", cause: "why" });
    const controller = new AbortController();
    let seen = 0;
    const listing = (async () => {
      for await (const _ of listLocks(backend, { signal: controller.signal })) {
        if ((seen += 1) === 10) controller.abort();
      }
    })();
    expect((await rejection(listing)).code).toBe("Aborted");
    expect(seen).toBe(100);
  });
});

describe("forceRelease", () => {
  test("releases a lock whatever its holder, whose signal aborts", async () => {
    const backend = createMemoryBackend();
    const held = await hold(backend, { key: "k", ttlMs: 300, autoExtend: true });
    const { signal } = held;
    expect(await forceRelease(backend, { key: "k" })).toEqual({ ok: true });
    expect(await forceRelease(backend, { key: "k" })).toEqual({ ok: false });
    expect(await backend.isLocked({ key: "k" })).toBe(false);
    await until(() => signal.aborted, "the holder to learn of it");
    expect(signal.reason).toMatchObject({ code: "LockLost" });
    expect(await held.release()).toEqual({ ok: false });
  });

  test("works on a decorated backend", async () => {
    const backend = createMemoryBackend();
    await backend.acquire({ key: "k", ttlMs: 60_000 });
    const observed = withTelemetry(backend, { onEvent() {} });
    expect(await forceRelease(observed, { key: "k" })).toEqual({ ok: true });
  });

  test("wrong input rejects", async () => {
    const backend = createMemoryBackend();
    for (const args of [
      [],
      [backend],
      [backend, null],
      [backend, "k"],
      [backend, {}],
      [backend, { key: 7 }],
      [backend, { key: "" }],
      [backend, { key: "x".repeat(513) }],
      [backend, { key: "k", signal: {} }],
      [undefined, { key: "k" }],
      [scripted(), { key: "k" }],
    ]) {
      const started = forceRelease(...args);
      expect(started).toBeInstanceOf(Promise);
      expect(await rejection(started)).toMatchObject(invalid);
    }
    const signal = AbortSignal.abort("why");
    expect(await rejection(forceRelease(backend, { key: "k", signal }))).toMatchObject({
      ...{ code: "Aborted", cause: "why", context: { key: "k" } },
    });
  });
});
