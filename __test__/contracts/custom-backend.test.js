// lock(), handles, helpers and telemetry are for any object of the LockBackend shape.

import { describe, expect, test } from "vitest";
import { acquireHandle, getByKey, lock, owns } from "../fixtures/api.js";
import { createCustomBackend, createStore } from "../fixtures/custom-backend.js";
import { contract } from "./suite.js";

const stores = new Map();
const storeOf = (namespace) => {
  if (!stores.has(namespace)) stores.set(namespace, createStore());
  return stores.get(namespace);
};

contract("a hand-made backend", {
  make: (options, namespace) => createCustomBackend(storeOf(namespace), options),
  native: false,
});

describe("a backend that returns bare results, without handles or fences", () => {
  const bare = () => {
    const inner = createCustomBackend();
    return {
      capabilities: { supportsFencing: false, timeAuthority: "client" },
      acquire: async (options) => {
        const { ok, lockId, expiresAtMs } = await inner.acquire(options);
        return ok ? { ok, lockId, expiresAtMs } : { ok, reason: "locked" };
      },
      release: inner.release,
      extend: inner.extend,
      isLocked: inner.isLocked,
      lookup: inner.lookup,
    };
  };

  test("lock() works on it", async () => {
    const backend = bare();
    const context = await lock(backend, (given) => given, { key: "k" });
    expect(context.fence).toBeUndefined();
    expect(context.lockId).toHaveLength(22);
    expect(await backend.isLocked({ key: "k" })).toBe(false);
  });

  test("acquireHandle makes its results disposable", async () => {
    const backend = bare();
    const handle = await acquireHandle(backend, { key: "k", ttlMs: 60_000 });
    expect(await owns(backend, handle.lockId)).toBe(true);
    expect((await handle.extend(90_000)).ok).toBe(true);
    await handle[Symbol.asyncDispose]();
    expect(await getByKey(backend, "k")).toBeNull();
  });
});
