// withTelemetry() over custom backends.

import { describe, expect, test, vi } from "vitest";
import {
  decorateAcquireResult,
  FAILURE_REASON,
  hashKey,
  hold,
  lock,
  LockError,
  withTelemetry,
} from "../../js/index.js";
import { createMemoryBackend } from "../../js/memory.js";
import { addon } from "../../js/native/addon.js";
import { LOCK_ID, observe, rejection, scripted } from "./support.js";

const durationMs = expect.any(Number);

describe("events", () => {
  test("of a failing backend: one for each call, with the error unchanged", async () => {
    const down = new Error("down");
    const fail = () => Promise.reject(down);
    const { backend, events } = observe(
      scripted({ acquire: fail, release: fail, extend: fail, isLocked: fail, lookup: fail }),
    );
    expect(await rejection(backend.acquire({ key: "k", ttlMs: 1 }))).toBe(down);
    expect(await rejection(backend.release({ lockId: LOCK_ID }))).toBe(down);
    expect(await rejection(backend.extend({ lockId: LOCK_ID, ttlMs: 1 }))).toBe(down);
    expect(await rejection(backend.isLocked({ key: "k" }))).toBe(down);
    expect(await rejection(backend.lookup({ key: "k" }))).toBe(down);
    const keyHash = hashKey("k");
    const lockIdHash = hashKey(LOCK_ID);
    expect(events).toEqual([
      { type: "acquire", keyHash, result: "fail", durationMs },
      { type: "release", lockIdHash, result: "fail", durationMs },
      { type: "extend", lockIdHash, result: "fail", durationMs },
      { type: "isLocked", keyHash, result: "fail", durationMs },
      { type: "lookup", keyHash, result: "fail", durationMs },
    ]);
  });

  test("have the duration, the backend, and the code of a LockError", async () => {
    vi.useFakeTimers();
    try {
      const slow = scripted({
        acquire: async () => {
          await vi.advanceTimersByTimeAsync(250);
          throw new LockError("RateLimited", "slow down");
        },
      });
      slow.capabilities.backend = "mine";
      const { backend, events } = observe(slow);
      await rejection(backend.acquire({ key: "k", ttlMs: 1 }));
      expect(events).toEqual([
        {
          ...{ type: "acquire", keyHash: hashKey("k"), result: "fail" },
          ...{ code: "RateLimited", backend: "mine", durationMs: 250 },
        },
      ]);
    } finally {
      vi.useRealTimers();
    }
  });

  test("of isLocked have the answer and no reason", async () => {
    let locked = true;
    const { backend, events } = observe(scripted({ isLocked: async () => locked }));
    await backend.isLocked({ key: "k" });
    locked = false;
    await backend.isLocked({ key: "k" });
    const common = { type: "isLocked", keyHash: hashKey("k"), durationMs };
    expect(events).toEqual([
      { ...common, result: "ok" },
      { ...common, result: "fail" },
    ]);
  });

  test("have the reason that a backend attaches or returns", async () => {
    const { backend, events } = observe(
      scripted({
        release: async () => ({ ok: false, [FAILURE_REASON]: { reason: "expired" } }),
        extend: async () => ({ ok: false, reason: "not-found" }),
      }),
    );
    await backend.release({ lockId: LOCK_ID });
    await backend.extend({ lockId: LOCK_ID, ttlMs: 1 });
    expect(events.map((event) => event.reason)).toEqual(["expired", "not-found"]);
  });

  test("of a lookup that found nothing", async () => {
    const { backend, events } = observe(scripted());
    await backend.lookup({ key: "k" });
    expect(events).toEqual([{ type: "lookup", keyHash: hashKey("k"), result: "fail", durationMs }]);
  });

  test("of calls with wrong options: the backend's answer counts", async () => {
    const { backend, events } = observe(createMemoryBackend());
    const hostile = new Proxy(
      {},
      {
        get() {
          throw new Error("hostile");
        },
      },
    );
    for (const opts of [undefined, null, { key: 1, ttlMs: 1 }, hostile]) {
      expect((await rejection(backend.acquire(opts))).code).toBe("InvalidArgument");
    }
    expect(events).toEqual(
      Array(4).fill({
        ...{ type: "acquire", result: "fail", code: "InvalidArgument" },
        ...{ backend: "memory", durationMs },
      }),
    );
  });
});

test("nothing is hashed without telemetry", async () => {
  const hash = vi.spyOn(addon(), "hashKey");
  const use = async (backend) => {
    const held = await backend.acquire({ key: "k", ttlMs: 60_000 });
    await backend.acquire({ key: "k", ttlMs: 60_000 });
    await backend.isLocked({ key: "k" });
    await held.extend(60_000);
    await held.release();
    await backend.release({ lockId: LOCK_ID });
    await lock(backend, () => {}, { key: "k" });
  };
  const memory = createMemoryBackend();
  await use(memory);
  expect(hash).not.toHaveBeenCalled();
  await use(observe(memory).backend);
  expect(hash).toHaveBeenCalled();
  hash.mockRestore();
});

describe("raw fields", () => {
  const events = async (includeRaw, key) => {
    const observed = observe(scripted(), { includeRaw });
    await observed.backend.acquire({ key, ttlMs: 1 });
    return observed.events[0];
  };

  test("true shows them, except for keys that look like secrets", async () => {
    expect(await events(true, "order:7")).toMatchObject({ key: "order:7", lockId: LOCK_ID });
    for (const key of ["session-token:1", "SECRET", "my-password", "api_key:2", "credentials"]) {
      const event = await events(true, key);
      expect(event).toHaveProperty("keyHash");
      expect(event).not.toHaveProperty("key");
      expect(event).not.toHaveProperty("lockId");
    }
  });

  test("a predicate decides, and gets no raw field", async () => {
    const includeRaw = vi.fn(({ key, lockId }) => key === undefined && lockId === undefined);
    expect(await events(includeRaw, "session-token:1")).toMatchObject({ key: "session-token:1" });
    expect(includeRaw).toHaveBeenCalledTimes(1);
  });

  test.each([1, "yes", null, undefined])(
    "a predicate that returns %o shows nothing",
    async (value) => {
      expect(await events(() => value, "k")).not.toHaveProperty("key");
    },
  );
});

describe("a decorated backend", () => {
  test("has the capabilities, close and disposal of the original", async () => {
    const plain = scripted();
    const { backend } = observe(plain);
    expect(backend.capabilities).toBe(plain.capabilities);
    expect("close" in backend || Symbol.asyncDispose in backend).toBe(false);

    const closed = [];
    const closable = {
      ...scripted(),
      close: async () => closed.push("close"),
      [Symbol.asyncDispose]: async () => closed.push("dispose"),
    };
    const observed = observe(closable).backend;
    await observed.close();
    await observed[Symbol.asyncDispose]();
    expect(closed).toEqual(["close", "dispose"]);
  });

  test("keeps the callbacks and timeouts of the handles", async () => {
    const failing = { release: () => Promise.reject(new Error("down")) };
    const onReleaseError = vi.fn();
    const custom = scripted(failing);
    const { acquire } = custom;
    custom.acquire = async (opts) =>
      decorateAcquireResult(custom, await acquire(opts), opts.key, onReleaseError);
    const { backend, events } = observe(custom);
    const held = await backend.acquire({ key: "k", ttlMs: 1000 });
    await held[Symbol.asyncDispose]();
    expect(onReleaseError).toHaveBeenCalledTimes(1);
    expect(events.map(({ type }) => type)).toEqual(["acquire", "release"]);

    const told = vi.fn();
    const memory = createMemoryBackend({ onReleaseError: told });
    const native = await observe(memory).backend.acquire({ key: "k", ttlMs: 1000 });
    await memory.close();
    await native[Symbol.asyncDispose]();
    expect(told).toHaveBeenCalledTimes(1);
  });

  test("keeps the time limit of the handles' disposal", async () => {
    const custom = scripted({ release: () => new Promise(() => {}) });
    const { acquire } = custom;
    const onReleaseError = vi.fn();
    custom.acquire = async (opts) =>
      decorateAcquireResult(custom, await acquire(opts), opts.key, onReleaseError, 20);
    const held = await observe(custom).backend.acquire({ key: "k", ttlMs: 1000 });
    await held[Symbol.asyncDispose]();
    expect(onReleaseError).toHaveBeenCalledExactlyOnceWith(
      expect.objectContaining({ message: expect.stringContaining("timed out") }),
      expect.anything(),
    );
  });

  test("keeps the reports of lock() and hold() about a failed release", async () => {
    const told = vi.fn();
    const memory = createMemoryBackend({ onReleaseError: told });
    const { backend } = observe(memory);
    const context = { key: "k", lockId: expect.any(String), source: "disposal" };
    vi.spyOn(memory, "release").mockRejectedValue(new Error("down"));
    await lock(backend, () => {}, { key: "k" });
    expect(told).toHaveBeenLastCalledWith(expect.objectContaining({ message: "down" }), context);
    const held = await hold(backend, { key: "other" });
    await held[Symbol.asyncDispose]();
    expect(told).toHaveBeenCalledTimes(2);
    expect(told).toHaveBeenLastCalledWith(expect.objectContaining({ message: "down" }), {
      ...context,
      key: "other",
    });
  });

  test("has handles with isHeld(), throwIfLost() and signal", async () => {
    const { backend, events } = observe(createMemoryBackend());
    const held = await backend.acquire({ key: "k", ttlMs: 60_000 });
    expect(held.isHeld()).toBe(true);
    expect(held.signal.aborted).toBe(false);
    held.throwIfLost();
    const refused = await backend.acquire({ key: "k", ttlMs: 60_000 });
    expect(refused.ok).toBe(false);
    expect(refused.isHeld()).toBe(false);
    expect(refused.signal.aborted).toBe(true);
    // There is nothing to release, so there is no event.
    await refused.release();
    await refused[Symbol.asyncDispose]();
    await held.release();
    expect(held.isHeld()).toBe(false);
    expect(events.map(({ type, result }) => `${type} ${result}`)).toEqual([
      ...["acquire ok", "acquire fail", "release ok"],
    ]);
  });

  test("makes handles from the result of a mocked acquire", async () => {
    const memory = createMemoryBackend();
    const bare = { ok: true, lockId: LOCK_ID, expiresAtMs: 1, fence: "000000000000001" };
    vi.spyOn(memory, "acquire").mockResolvedValue(bare);
    const { backend, events } = observe(memory);
    for (const end of ["release", Symbol.asyncDispose]) {
      const held = await backend.acquire({ key: "k", ttlMs: 1000 });
      expect(held).toMatchObject(bare);
      await held[end]();
    }
    expect(events.map(({ type }) => type)).toEqual(["acquire", "release", "acquire", "release"]);
  });

  test("can be decorated again, and both get every event", async () => {
    const inner = observe(scripted());
    const outer = observe(inner.backend);
    await lock(outer.backend, () => {}, { key: "k" });
    const what = ({ type, result, keyHash, lockIdHash }) => [type, result, keyHash, lockIdHash];
    expect(outer.events.map(what)).toEqual(inner.events.map(what));
    expect(outer.events).toHaveLength(2);
  });
});

test.each([
  [undefined, undefined],
  [scripted(), undefined],
  [scripted(), null],
  [scripted(), {}],
  [scripted(), { onEvent: 1 }],
  [scripted(), { onEvent() {}, includeRaw: "yes" }],
  [{}, { onEvent() {} }],
  [null, { onEvent() {} }],
])("wrong arguments are refused (%#)", (backend, options) => {
  expect(() => withTelemetry(backend, options)).toThrow(
    expect.objectContaining({ name: "LockError", code: "InvalidArgument" }),
  );
});
