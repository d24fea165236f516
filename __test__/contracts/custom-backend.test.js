// lock(), handles, helpers and telemetry work with any object of the LockBackend shape.

import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { acquireHandle, getByKey, lock, owns } from "../fixtures/api.js";
import { createCustomBackend, createStore } from "../fixtures/custom-backend.js";
import { aborted, deferred, untilFree } from "../fixtures/wait.js";
import { rejection } from "./setup.js";
import { contract } from "./suite.js";

const stores = new Map();
const storeOf = (namespace) => {
  if (!stores.has(namespace)) stores.set(namespace, createStore());
  return stores.get(namespace);
};

contract("a hand-made backend", {
  make: (options, namespace) => createCustomBackend(storeOf(namespace), options),
  native: false,
  needsLoop: true,
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

describe("a backend that does not look at signals", () => {
  /** A backend that grants only when the gate opens. */
  const slow = () => {
    const gate = deferred();
    const inner = createCustomBackend();
    const backend = {
      ...inner,
      acquire: async ({ key, ttlMs }) => {
        const result = await inner.acquire({ key, ttlMs });
        await gate.promise;
        return result;
      },
    };
    return { backend, gate };
  };

  test("a lock granted after the wait was aborted is released", async () => {
    const { backend, gate } = slow();
    const controller = new AbortController();
    const { signal } = controller;
    const waiting = rejection(lock(backend, () => {}, { key: "k", ttlMs: 600_000, signal }));
    controller.abort();
    expect((await waiting).code).toBe("Aborted");
    gate.resolve();
    await untilFree(backend, "k");
  });

  test("a lock granted after the wait timed out is released", async () => {
    const { backend, gate } = slow();
    const acquisition = { timeoutMs: 20 };
    const error = await rejection(
      lock(backend, () => {}, { key: "k", ttlMs: 600_000, acquisition }),
    );
    expect(error.code).toBe("AcquisitionTimeout");
    gate.resolve();
    await untilFree(backend, "k");
  });
});

describe("autoExtend over a backend", () => {
  /** A backend that counts extensions, and lets some of them fail. */
  const counting = (fails = () => false) => {
    const inner = createCustomBackend();
    const backend = {
      ...inner,
      extends: 0,
      extend: async (options) => {
        backend.extends += 1;
        if (fails(backend.extends)) throw new Error("no answer");
        return inner.extend(options);
      },
    };
    return backend;
  };

  test("stops with the function", async () => {
    const backend = counting();
    await lock(backend, () => sleep(100), { key: "k", ttlMs: 60, autoExtend: true });
    const before = backend.extends;
    await sleep(200);
    expect(backend.extends).toBe(before);
  });

  test("survives a failed attempt", async () => {
    const backend = counting((count) => count === 1);
    await lock(
      backend,
      async ({ signal }) => {
        while (backend.extends < 3 && !signal.aborted) await sleep(20);
        expect(signal.aborted).toBe(false);
      },
      { key: "k", ttlMs: 3_000, autoExtend: true },
    );
    expect(backend.extends).toBeGreaterThanOrEqual(3);
  });

  test("that never answers again ends in LockLost when the lock's time is over", async () => {
    const backend = counting(() => true);
    const reason = await lock(backend, ({ signal }) => aborted(signal), {
      key: "k",
      ttlMs: 200,
      autoExtend: true,
    });
    expect(reason).toMatchObject({ name: "LockError", code: "LockLost" });
    expect(backend.extends).toBeGreaterThan(0);
  });
});
