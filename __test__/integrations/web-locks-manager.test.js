// What a lock manager does beyond the standard: it can be closed, its store can fail, it has options.

import { AsyncLocalStorage } from "node:async_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test, vi } from "vitest";
import { forceRelease, LockError } from "../../js/index.js";
import { createMemoryBackend } from "../../js/memory.js";
import { createRedisBackend } from "../../js/redis.js";
import { createSqliteBackend } from "../../js/sqlite.js";
import { createLockManager, Lock, LockManager } from "../../js/web-locks.js";
import { createCustomBackend, createStore } from "../fixtures/custom-backend.js";
import { JS, run } from "../fixtures/node.js";
import { testFolder } from "../sqlite/folder.js";
import { deferred, holdLock } from "./web-locks/standard.js";

const folder = testFolder();
const unexpected = () => expect.unreachable();

describe("the managers of one backend", () => {
  test("share their locks and the order of requests, and are different clients", async () => {
    const backend = createMemoryBackend();
    const [one, other] = [createLockManager(backend), createLockManager(backend)];
    const order = [];
    const { release, released } = await holdLock(one, "n");
    const waiting = [other, one, other].map((locks, number) =>
      locks.request("n", () => void order.push(number)),
    );
    const { held, pending } = await other.query();
    const [mine] = held.map(({ clientId }) => clientId);
    expect(pending.map(({ clientId }) => clientId === mine)).toEqual([false, true, false]);
    release();
    await Promise.all([released, ...waiting]);
    expect(order).toEqual([0, 1, 2]);
  });

  test("are of the exported classes", async () => {
    const locks = createLockManager("memory:");
    expect(Object.getPrototypeOf(locks)).toBe(LockManager.prototype);
    expect(await locks.request("n", (lock) => lock)).toBeInstanceOf(Lock);
  });
});

describe("close()", () => {
  test("rejects what waits and what comes later; what is held ends as usual", async () => {
    const backend = createMemoryBackend();
    const locks = createLockManager(backend);
    const another = createLockManager(backend);
    const { release, released } = await holdLock(locks, "n");
    const waiting = locks.request("n", unexpected);
    const theirs = another.request("n", () => "theirs");
    const aborted = expect(waiting).rejects.toMatchObject({ name: "AbortError" });
    await locks.close();
    await aborted;
    for (const promise of [locks.request("m", unexpected), locks.query()]) {
      await expect(promise).rejects.toMatchObject({ name: "InvalidStateError", code: 11 });
    }
    await expect(locks.request("-", { mode: "x" }, unexpected)).rejects.toBeInstanceOf(TypeError);
    await expect(locks.request("-", unexpected)).rejects.toMatchObject({
      name: "InvalidStateError",
    });
    release("value");
    expect(await released).toBe("value");
    expect(await theirs).toBe("theirs");
    expect(await backend.isLocked({ key: "web-locks:n" })).toBe(false);
  });

  test("closes a backend that was opened for a URL, after its callbacks or a time limit", async () => {
    const url = `sqlite:${folder.file()}`;
    const locks = createLockManager(url);
    const patient = await holdLock(locks, "n");
    const closed = locks.close();
    patient.release("value");
    expect(await patient.released).toBe("value");
    await closed;

    const hurried = createLockManager(url);
    const forgotten = await holdLock(hurried, "n");
    const rejected = expect(forgotten.released).rejects.toMatchObject({ name: "AbortError" });
    await hurried.close({ timeoutMs: 10 });
    await rejected;
    const fresh = createLockManager(url);
    expect(await fresh.request("n", { ifAvailable: true }, (lock) => lock?.name)).toBe("n");
    await fresh.close();
  });
});

describe("a lost lock", () => {
  test("rejects its request; the next one is granted", async () => {
    const backend = createMemoryBackend();
    const locks = createLockManager(backend);
    const { released, release } = await holdLock(locks, "n");
    const next = locks.request("n", () => "next");
    const rejected = expect(released).rejects.toMatchObject({
      ...{ name: "AbortError", message: "The lock was lost" },
      cause: expect.objectContaining({ code: "LockLost" }),
    });
    await forceRelease(backend, { key: "web-locks:n" });
    await rejected;
    expect(await next).toBe("next");
    release();
  });
});

describe("if the store is down", () => {
  const unreachable = () =>
    createRedisBackend("redis://127.0.0.1:1", { connectTimeoutMs: 100, operationTimeoutMs: 100 });

  test.each([{}, { ifAvailable: true }, { steal: true }])(
    "a request with %j rejects, and the callback is not called",
    async (options) => {
      const backend = unreachable();
      const locks = createLockManager(backend);
      const error = await locks.request("n", options, unexpected).catch((thrown) => thrown);
      expect(error).toBeInstanceOf(LockError);
      expect(error.code).toBe("ServiceUnavailable");
      await expect(locks.query()).rejects.toBeInstanceOf(LockError);
      await backend.close();
    },
  );

  test("the requests that follow are not affected once it is back", async () => {
    const backend = createMemoryBackend();
    const failing = { ...backend, acquire: vi.fn(backend.acquire) };
    failing.acquire.mockRejectedValueOnce(new LockError("ServiceUnavailable"));
    const locks = createLockManager(failing);
    const both = [locks.request("n", unexpected), locks.request("n", () => "second")];
    await expect(both[0]).rejects.toMatchObject({ code: "ServiceUnavailable" });
    expect(await both[1]).toBe("second");
  });

  test("a release that fails is reported, and request() has the callback's value", async () => {
    const onReleaseError = vi.fn();
    const backend = createCustomBackend(undefined, { onReleaseError });
    const failing = { ...backend, release: async () => Promise.reject(new Error("away")) };
    const report = vi.spyOn(console, "error").mockReturnValue();
    const locks = createLockManager(failing);
    expect(await locks.request("n", () => "value")).toBe("value");
    expect(report).toHaveBeenCalledWith("[SyncGuard] Lock disposal failed:", expect.anything());
    report.mockRestore();
  });
});

describe("a backend of one's own", () => {
  test("takes all requests but the theft from others", async () => {
    const store = createStore();
    const [one, other] = [0, 1].map(() => createLockManager(createCustomBackend(store)));
    const { release, released } = await holdLock(one, "n");
    expect(await other.request("n", { ifAvailable: true }, (lock) => lock)).toBeNull();
    await expect(other.request("n", { steal: true }, unexpected)).rejects.toMatchObject({
      name: "NotSupportedError",
    });
    const waiting = other.request("n", (lock) => lock.name);
    expect((await other.query()).held).toEqual([]);
    expect((await other.query()).pending).toHaveLength(1);
    release();
    await released;
    expect(await waiting).toBe("n");
    const mine = await holdLock(one, "n");
    const rejected = expect(mine.released).rejects.toMatchObject({ name: "AbortError" });
    expect(await one.request("n", { steal: true }, (lock) => lock.name)).toBe("n");
    await rejected;
  });

  test("that is slow for one name delays the others' callbacks by a tenth of a second", async () => {
    const backend = createMemoryBackend();
    const answer = deferred();
    const slow = {
      ...backend,
      acquire: async (options) => {
        if (options.key.endsWith("slow")) await answer.promise;
        return backend.acquire(options);
      },
    };
    const locks = createLockManager(slow);
    const called = [];
    const requests = ["slow", "other"].map((name) =>
      locks.request(name, () => void called.push(name)),
    );
    await sleep(50);
    expect(called).toEqual([]);
    await vi.waitFor(() => expect(called).toEqual(["other"]));
    answer.resolve();
    await Promise.all(requests);
    expect(called).toEqual(["other", "slow"]);
  });
});

describe("options", () => {
  test("ttlMs is the lease, 30 s by default, and the lock is kept alive", async () => {
    const backend = createMemoryBackend();
    const leaseOf = async (locks) =>
      locks.request("n", async () => {
        const { expiresAtMs } = await backend.lookup({ key: "web-locks:n" });
        return Math.round((expiresAtMs - Date.now()) / 1000);
      });
    expect(await leaseOf(createLockManager(backend))).toBe(30);
    expect(await leaseOf(createLockManager(backend, { ttlMs: 5_000 }))).toBe(5);
    const short = createLockManager(backend, { ttlMs: 200 });
    expect(await short.request("n", () => sleep(500, "kept"))).toBe("kept");
  });

  test("without arguments it opens the default backend", async () => {
    const locks = createLockManager();
    expect(await locks.request(crypto.randomUUID(), () => "held")).toBe("held");
    await locks.close();
  });

  test.each([
    [[undefined], /The URL of the backend is undefined/],
    [[{}], /needs a URL/],
    [[{ acquire() {} }], /an object with acquire, release, extend/],
    [["memory:", { ttl: 5 }], /Unknown option "ttl": did you mean "ttlMs"\?/],
    [["memory:", { ttlMs: 0 }], /ttlMs must be a positive integer/],
    [["memory:", null], /must be an object/],
  ])("refuses %j", (args, message) => {
    expect(() => createLockManager(...args)).toThrow(
      expect.objectContaining({ code: "InvalidArgument", message: expect.stringMatching(message) }),
    );
  });
});

describe("the program", () => {
  test("callbacks run in the asynchronous context of their request", async () => {
    const storage = new AsyncLocalStorage();
    const locks = createLockManager("memory:");
    const { release, released } = await holdLock(locks, "n");
    const seen = [1, 2].map((value) =>
      storage.run(value, () => locks.request("n", () => storage.getStore())),
    );
    const busy = storage.run(3, () =>
      locks.request("n", { ifAvailable: true }, () => storage.getStore()),
    );
    storage.run(4, release);
    await released;
    expect(await Promise.all([...seen, busy])).toEqual([1, 2, 3]);
  });

  test("ends while a lock is held, and the lock is released", async () => {
    const path = folder.file();
    const { code, stdout, stderr } = await run(`
      import { createLockManager } from "${JS}web-locks.js";
      const locks = createLockManager(${JSON.stringify(`sqlite:${path}`)});
      locks.request("n", () => {
        console.log("held");
        return new Promise(() => {});
      });
    `);
    expect({ code, stdout, stderr }).toEqual({ code: 0, stdout: "held\n", stderr: "" });
    const backend = createSqliteBackend(path);
    expect(await backend.isLocked({ key: "web-locks:n" })).toBe(false);
    await backend.close();
  });

  test("needs no more memory for names that are not used any more", async () => {
    const { code, stdout } = await run(
      `
      import { createLockManager } from "${JS}web-locks.js";
      const locks = createLockManager("memory:");
      const rounds = async (count) => {
        for (let round = 0; round < count; round += 1) {
          const name = "n".repeat(1000) + round;
          const { signal } = new AbortController();
          await Promise.all([
            locks.request(name, { signal }, () => {}),
            locks.request(name, { signal }, () => {}),
          ]);
        }
        gc();
        return process.memoryUsage().heapUsed;
      };
      await rounds(500);
      const before = await rounds(500);
      console.log((await rounds(3_000)) - before < 1_000_000);
    `,
      { flags: ["--expose-gc"] },
    );
    expect({ code, stdout }).toEqual({ code: 0, stdout: "true\n" });
  });
});
