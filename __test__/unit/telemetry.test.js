// withTelemetry over hand-made backends.

import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import {
  decorateAcquireResult,
  FAILURE_REASON,
  hashKey,
  hold,
  lock,
  LockError,
  tryHold,
  withTelemetry,
} from "../../js/index.js";
import { createMemoryBackend } from "../../js/memory.js";
import { LOCK_ID, rejection, scripted } from "./support.js";

function observe(backend, options) {
  const events = [];
  const onEvent = (event) => events.push(event);
  return { events, backend: withTelemetry(backend, { onEvent, ...options }) };
}

const durationMs = expect.any(Number);

describe("events", () => {
  test("of a failing backend: one each, the error as it was", async () => {
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

  test("tell how long it took, on which backend, and the code of a LockError", async () => {
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

  test("of isLocked tell whether it is: that is no reason", async () => {
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

  test("give the reason that a backend hides, or says in the open", async () => {
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

describe("events of lock() and its kin", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => {
    vi.useRealTimers();
    vi.restoreAllMocks();
  });

  /** Free at the given attempt. */
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

  test("one for the whole wait, and one for the release", async () => {
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

  test("a wait in vain was for a lock that another has", async () => {
    const { backend, events } = observe(freeAt(99));
    const config = { key: "k", acquisition: { ...acquisition, timeoutMs: 200 } };
    const failed = rejection(lock(backend, () => {}, config));
    await vi.advanceTimersByTimeAsync(200);
    await failed;
    expect(events).toHaveLength(1);
    expect(events[0]).toMatchObject({
      ...{ type: "acquire", result: "fail", reason: "locked", code: "AcquisitionTimeout" },
      ...{ keyHash: hashKey("k"), waitMs: 200, durationMs: 200 },
    });
  });

  test("so was an attempt that did not wait, which is no error", async () => {
    const { backend, events } = observe(freeAt(2));
    expect(await tryHold(backend, { key: "k" })).toBeNull();
    expect(events).toEqual([
      expect.objectContaining({ type: "acquire", result: "fail", reason: "locked", attempts: 1 }),
    ]);
    expect(events[0]).not.toHaveProperty("code");
  });

  test("a wait that was cancelled, or failed, has the code and no reason", async () => {
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

  test("heartbeats, those that fail too, and the loss", async () => {
    vi.spyOn(console, "warn").mockImplementation(() => {});
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
    const told = events.map(({ type, result, code }) => `${type} ${result} ${code}`);
    expect(told.slice(0, 3)).toEqual([
      "acquire ok undefined",
      "heartbeat ok undefined",
      "heartbeat fail ServiceUnavailable",
    ]);
    // That the lock is gone and that a heartbeat found it gone are told in one moment.
    expect(told.slice(3, 5).sort()).toEqual(["heartbeat fail LockLost", "lost fail LockLost"]);
    expect(told.slice(5)).toEqual(["release ok undefined"]);
    for (const event of events) expect(event).toMatchObject(hashes);
  });

  test("a loss without a heartbeat is told when it happens", async () => {
    vi.spyOn(console, "warn").mockImplementation(() => {});
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
    expect(types()).toEqual(["acquire", "lost", "release"]);
    expect(events.map(({ heldMs }) => heldMs)).toEqual([undefined, 900, 901]);
    expect(vi.getTimerCount()).toBe(0);
  });

  test("an extension by hand is one", async () => {
    const { backend, events } = observe(scripted());
    await lock(backend, ({ extend }) => extend(5000), { key: "k" });
    expect(events[1]).toEqual({ type: "extend", result: "ok", ...hashes, durationMs: 0 });
  });

  test("config.onEvent hears of its own call, beside those of the backend", async () => {
    const { backend, events } = observe(scripted());
    const own = [];
    await lock(backend, () => {}, { key: "k", onEvent: (event) => own.push(event) });
    await lock(backend, () => {}, { key: "k" });
    expect(own).toEqual(events.slice(0, 2));
    expect(events).toHaveLength(4);
  });
});

describe("raw fields", () => {
  const events = async (includeRaw, key) => {
    const observed = observe(scripted(), { includeRaw });
    await observed.backend.acquire({ key, ttlMs: 1 });
    return observed.events[0];
  };

  test("true shows them, but not those of keys that look like secrets", async () => {
    expect(await events(true, "order:7")).toMatchObject({ key: "order:7", lockId: LOCK_ID });
    for (const key of ["session-token:1", "SECRET", "my-password", "api_key:2", "credentials"]) {
      const event = await events(true, key);
      expect(event).toHaveProperty("keyHash");
      expect(event).not.toHaveProperty("key");
      expect(event).not.toHaveProperty("lockId");
    }
  });

  test("a predicate decides itself, and sees no raw field", async () => {
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
  test("passes on capabilities, close and disposal where there are any", async () => {
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

  test("keeps what lock() and hold() report of a failed release", async () => {
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

  test("has handles that know their lock as the backend's own do", async () => {
    const { backend, events } = observe(createMemoryBackend());
    const held = await backend.acquire({ key: "k", ttlMs: 60_000 });
    expect(held.isHeld()).toBe(true);
    expect(held.signal.aborted).toBe(false);
    held.throwIfLost();
    const refused = await backend.acquire({ key: "k", ttlMs: 60_000 });
    expect(refused.ok).toBe(false);
    expect(refused.isHeld()).toBe(false);
    expect(refused.signal.aborted).toBe(true);
    // There is nothing to release, and nothing to tell of.
    await refused.release();
    await refused[Symbol.asyncDispose]();
    await held.release();
    expect(held.isHeld()).toBe(false);
    expect(events.map(({ type, result }) => `${type} ${result}`)).toEqual([
      ...["acquire ok", "acquire fail", "release ok"],
    ]);
  });

  test("makes handles of what a mocked acquire returns", async () => {
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

  test("can be decorated again: both hear of everything", async () => {
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
