// The contract suite for people who write a backend: a good backend passes, and each kind of broken
// one fails in the behaviour that it breaks.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { formatFence, LockError, sanitizeLockInfo, TIME_TOLERANCE_MS } from "../../js/common.js";
import { testBackend } from "../../js/testing.js";
import { BEHAVIOURS } from "../../js/testing/suite.js";
import { createCustomBackend, createStore } from "../fixtures/custom-backend.js";
import { ROOT } from "../fixtures/node.js";

/** The TTL can be short, because the good backend is in this process. */
const QUICK = { ttlMs: 400, toleranceMs: 1000 };
const names = Object.keys(BEHAVIOURS);

/** Returns the tests that testBackend() registers, by the names of their behaviours. */
function collect(options) {
  const tests = new Map();
  const groups = [];
  testBackend({
    ...QUICK,
    describe(name, body) {
      groups.push(name);
      body();
    },
    test(title, run, timeoutMs) {
      const [, name] = /\[([a-z-]+)\]$/.exec(title);
      tests.set(name, { title, run, timeoutMs });
    },
    ...options,
  });
  return { tests, groups };
}

/** Returns the behaviours that fail, with their errors. */
async function failures(options) {
  const { tests } = collect(options);
  const failed = {};
  await Promise.all(
    [...tests].map(async ([name, { run }]) => {
      await run().catch((error) => (failed[name] = error));
    }),
  );
  return failed;
}

/** Returns a function that creates good backends with some parts replaced. All of them share a store. */
function broken(change) {
  const store = { ...createStore(), keys: new Map() };
  return () => {
    const good = createCustomBackend(store);
    return { ...good, ...change(good, store) };
  };
}

const byId = (store, lockId) => [...store.locks.values()].find((lock) => lock.lockId === lockId);

const BROKEN = {
  "two winners": {
    change: (good, store) => ({
      async acquire(options) {
        const isFree = !(await good.isLocked(options));
        const result = await good.acquire(options);
        if (result.ok || !isFree) return result;
        // It reads before it writes, so a caller in between acquires the lock too.
        store.locks.delete(options.key);
        return good.acquire(options);
      },
    }),
    fails: ["one-winner"],
  },
  "a fence that repeats": {
    change: (good) => ({
      async acquire(options) {
        const result = await good.acquire(options);
        return result.ok ? { ...result, fence: formatFence(1) } : result;
      },
    }),
    fails: ["fences-grow", "fences-grow-contended", "fences-survive-expiry", "shared-fences"],
  },
  "a release by a stranger": {
    change: (good, store) => ({
      async acquire(options) {
        const result = await good.acquire(options);
        if (result.ok) store.keys.set(result.lockId, options.key);
        return result;
      },
      // It deletes by key, whoever holds the key now.
      async release({ lockId, signal }) {
        const current = store.locks.get(store.keys.get(lockId));
        return good.release({ lockId: current?.lockId ?? lockId, signal });
      },
    }),
    fails: ["stale-lock-id", "expired-owner"],
  },
  "an extend of an expired lock": {
    change: (good, store) => ({
      async extend(options) {
        const held = byId(store, options.lockId);
        if (held !== undefined && Number.isInteger(options.ttlMs)) {
          held.expiresAtMs = Math.max(held.expiresAtMs, Date.now());
        }
        return good.extend(options);
      },
    }),
    fails: ["expired-stays-expired"],
  },
  "an expired lock that stays locked": {
    change: (good, store) => ({
      isLocked: async (options) => (await good.isLocked(options)) || store.locks.has(options.key),
    }),
    fails: ["expires", "extend-shortens"],
  },
  "an expired lock that keeps others out": {
    change: (good, store) => ({
      acquire: async (options) =>
        store.locks.has(options.key) ? { ok: false, reason: "locked" } : good.acquire(options),
    }),
    fails: ["expired-acquired", "expired-owner", "fences-survive-expiry"],
  },
  "a lookup that finds dead locks": {
    change: (good, store) => ({
      async lookup(options) {
        const found = await good.lookup(options);
        if (found !== null) return found;
        const { key, lockId } = options;
        const dead = key === undefined ? byId(store, lockId) : store.locks.get(key);
        return dead === undefined ? null : sanitizeLockInfo(dead, good.capabilities);
      },
    }),
    fails: ["lookup-expired"],
  },
  "a lock that expires too early": {
    change: (good, store) => ({
      async acquire(options) {
        const result = await good.acquire(options);
        const isShort = result.ok && options.ttlMs === QUICK.ttlMs;
        if (isShort) store.locks.get(options.key).expiresAtMs -= TIME_TOLERANCE_MS + QUICK.ttlMs;
        return result;
      },
    }),
    fails: ["expires", "expired-acquired"],
  },
  "an aborted acquire that takes effect": {
    change: (good) => ({ acquire: ({ key, ttlMs }) => good.acquire({ key, ttlMs }) }),
    fails: ["aborted-signal"],
  },
  "a lookup that shows the key": {
    change: (good) => ({
      async lookup(options) {
        const found = await good.lookup(options);
        return found && { ...found, key: options.key ?? "", lockId: options.lockId ?? "" };
      },
    }),
    fails: ["lookup-hides-secrets", "lookup-info"],
  },
  "no validation of the ttl": {
    change: (good) => ({
      acquire: (options) => good.acquire({ ...options, ttlMs: Number(options.ttlMs) || 1 }),
    }),
    fails: ["invalid-ttl"],
  },
};

test("a backend that keeps the contract passes", async () => {
  // Its heartbeats need the event loop, so the TTL must be long enough for a busy machine.
  expect(await failures({ create: broken(() => ({})), ttlMs: 2_000 })).toEqual({});
});

describe("a broken backend fails where it is broken", () => {
  test.each(Object.entries(BROKEN))("%s", async (_, { change, fails }) => {
    const skip = names.filter((name) => !fails.includes(name));
    const failed = await failures({ create: broken(change), skip });
    expect(Object.keys(failed).sort()).toEqual([...fails].sort());
    for (const error of Object.values(failed)) expect(error.name).toBe("AssertionError");
  });
});

describe("what testBackend() registers", () => {
  const create = broken(() => ({}));

  test("is one group, with a test for each behaviour whose title ends with its name", () => {
    const { tests, groups } = collect({ create });
    expect(groups).toEqual(["the contract of a backend"]);
    expect([...tests.keys()]).toEqual(names);
    expect(collect({ create, name: "mine" }).groups).toEqual(["mine"]);
    for (const { timeoutMs } of tests.values()) expect(timeoutMs).toBeGreaterThan(20_000);
  });

  test("omits skipped behaviours, and fences or shared locks that a backend does not have", () => {
    expect(collect({ create, skip: ["expires"] }).tests.has("expires")).toBe(false);
    const fenceless = [...collect({ create, supportsFencing: false }).tests.keys()];
    expect(fenceless.filter((name) => name.includes("fence"))).toEqual([]);
    expect(collect({ create, shared: false }).tests.has("shared-locks")).toBe(false);
  });

  test("the names of the behaviours are declared", () => {
    const declared = readFileSync(join(ROOT, "types/testing.d.ts"), "utf8");
    expect([...declared.matchAll(/^  \| "([a-z-]+)"/gm)].map(([, name]) => name)).toEqual(names);
  });

  test.each([
    ["no options", undefined, "create"],
    ["no create", {}, "create"],
    ["a backend in place of create", { create: createCustomBackend() }, "create"],
    ["an unknown behaviour", { create, skip: ["two-winners"] }, "two-winners"],
    ["a skip that is no array", { create, skip: "expires" }, "array"],
    ["a ttlMs of 0", { create, ttlMs: 0 }, "ttlMs"],
    ["a toleranceMs of -1", { create, toleranceMs: -1 }, "toleranceMs"],
    ["a timeoutMs that is text", { create, timeoutMs: "1" }, "timeoutMs"],
    ["shared: 1", { create, shared: 1 }, "shared"],
    ["a cleanUp that is no function", { create, cleanUp: true }, "cleanUp"],
    ["a name that is no text", { create, name: 7 }, "name"],
    ["no runner", { create }, "node:test"],
  ])("%s rejects with InvalidArgument", (_, options, text) => {
    let error;
    try {
      testBackend(options);
    } catch (thrown) {
      error = thrown;
    }
    expect(error).toBeInstanceOf(LockError);
    expect(error.code).toBe("InvalidArgument");
    expect(error.message).toContain(text);
  });
});

describe("the backends of a test", () => {
  test("are closed after the test, also if it fails", async () => {
    let [opened, closed] = [0, 0];
    const create = async () => {
      opened += 1;
      return { ...createCustomBackend(), acquire: null, close: async () => (closed += 1) };
    };
    const run = collect({ create }).tests.get("shared-locks").run;
    await expect(run()).rejects.toThrow();
    expect([opened, closed]).toEqual([2, 2]);
  });

  test("are passed to cleanUp once each, instead of being closed", async () => {
    const backend = createCustomBackend();
    const cleaned = [];
    const cleanUp = (given) => cleaned.push(given);
    await collect({ create: () => backend, cleanUp })
      .tests.get("shared-locks")
      .run();
    expect(cleaned).toEqual([backend]);
    expect(await backend.isLocked({ key: "k" })).toBe(false);
  });

  test("fail their test within its limit if they never answer", async () => {
    const create = () => ({ ...createCustomBackend(), acquire: () => new Promise(() => {}) });
    const { run } = collect({ create, timeoutMs: 50 }).tests.get("one-winner");
    await expect(run()).rejects.toThrow(/within timeoutMs \(50 ms\)/);
  });

  test("must be backends", async () => {
    const { run } = collect({ create: () => undefined }).tests.get("one-winner");
    await expect(run()).rejects.toThrow("create() must return a backend; it returned undefined");
  });
});
