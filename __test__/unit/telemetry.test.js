// withTelemetry over hand-made backends.

import { describe, expect, test, vi } from "vitest";
import {
  decorateAcquireResult,
  hashKey,
  lock,
  FAILURE_REASON,
  withTelemetry,
} from "../../js/index.js";
import { createMemoryBackend } from "../../js/memory.js";
import { LOCK_ID, rejection, scripted } from "./support.js";

function observe(backend, options) {
  const events = [];
  const onEvent = (event) => events.push(event);
  return { events, backend: withTelemetry(backend, { onEvent, ...options }) };
}

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
      { type: "acquire", keyHash, result: "fail" },
      { type: "release", lockIdHash, result: "fail" },
      { type: "extend", lockIdHash, result: "fail" },
      { type: "isLocked", keyHash, result: "fail" },
      { type: "lookup", keyHash, result: "fail" },
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
    expect(events).toEqual([
      { type: "lookup", keyHash: hashKey("k"), result: "fail", reason: "not-found" },
    ]);
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
    expect(events).toEqual(Array(4).fill({ type: "acquire", result: "fail" }));
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
      expect(Object.keys(await events(true, key))).toEqual([
        "type",
        "result",
        "keyHash",
        "lockIdHash",
      ]);
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
    vi.spyOn(memory, "release").mockRejectedValue(new Error("down"));
    const native = await observe(memory).backend.acquire({ key: "k", ttlMs: 1000 });
    await native[Symbol.asyncDispose]();
    expect(told).toHaveBeenCalledTimes(1);
  });

  test("can be decorated again: both hear of everything", async () => {
    const inner = observe(scripted());
    const outer = observe(inner.backend);
    await lock(outer.backend, () => {}, { key: "k" });
    expect(outer.events).toEqual(inner.events);
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
