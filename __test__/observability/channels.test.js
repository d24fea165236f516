// The tracing channels: a subscriber gets messages about every lock, with hashes only.

import { tracingChannel } from "node:diagnostics_channel";
import { inspect } from "node:util";
import { afterEach, describe, expect, test } from "vitest";
import { forceRelease, hashKey, hold, lock, tryLock } from "../../js/index.js";
import { createMemoryBackend } from "../../js/memory.js";
import { until } from "../fixtures/wait.js";

const KINDS = ["acquire", "release", "extend", "hold"];
const EVENTS = ["start", "end", "asyncStart", "asyncEnd", "error"];
const key = "customer:secret:42";

let unsubscribe = () => {};
afterEach(() => unsubscribe());

/** Collects all messages, each as it is when it is published. */
function subscribe(kinds = KINDS) {
  const published = [];
  const subscriptions = kinds.map((kind) => {
    const channel = tracingChannel(`syncguard:${kind}`);
    const listeners = Object.fromEntries(
      EVENTS.map((event) => [
        event,
        (message) => published.push({ kind, event, message, then: { ...message } }),
      ]),
    );
    channel.subscribe(listeners);
    return () => channel.unsubscribe(listeners);
  });
  unsubscribe = () => subscriptions.forEach((end) => end());
  return {
    published,
    steps: (kind) => published.filter((one) => one.kind === kind).map(({ event }) => event),
    last: (kind) => published.findLast((one) => one.kind === kind)?.message,
  };
}

const WELL = ["start", "end", "asyncStart", "asyncEnd"];
const BADLY = ["start", "end", "error", "asyncStart", "asyncEnd"];

describe("lock()", () => {
  test("publishes the wait, the hold and the release", async () => {
    const backend = createMemoryBackend();
    const seen = subscribe();
    await lock(
      backend,
      async ({ extend, lockId }) => {
        expect(seen.steps("acquire")).toEqual(WELL);
        expect(seen.steps("hold")).toEqual(["start", "end"]);
        await extend(10_000);
        expect(seen.last("hold").lockIdHash).toBe(hashKey(lockId));
      },
      { key, name: "report" },
    );
    for (const kind of KINDS) {
      expect(seen.steps(kind)).toEqual(WELL);
      expect(seen.last(kind)).toMatchObject({
        ...{ backend: "memory", name: "report", keyHash: hashKey(key), result: "ok" },
        ...{ durationMs: expect.any(Number), lockIdHash: expect.stringMatching(/^[0-9a-f]{24}$/) },
      });
    }
    expect(seen.last("acquire")).toMatchObject({ attempts: 1, waitMs: expect.any(Number) });
  });

  test("a failed wait has its code and its attempts, and no hold", async () => {
    const backend = createMemoryBackend();
    await backend.acquire({ key, ttlMs: 60_000 });
    const seen = subscribe();
    const acquisition = { timeoutMs: 60, retryDelayMs: 10 };
    await expect(lock(backend, () => {}, { key, acquisition })).rejects.toThrow();
    expect(seen.steps("acquire")).toEqual(BADLY);
    const { code, error, result, attempts, waitMs } = seen.last("acquire");
    expect([code, error.code, result]).toEqual([
      "AcquisitionTimeout",
      "AcquisitionTimeout",
      "fail",
    ]);
    expect(attempts).toBeGreaterThan(0);
    expect(waitMs).toBeGreaterThanOrEqual(50);
    expect(seen.steps("hold")).toEqual([]);
  });

  test("a busy lock is not an error of an attempt that does not wait", async () => {
    const backend = createMemoryBackend();
    await backend.acquire({ key, ttlMs: 60_000 });
    const seen = subscribe();
    await tryLock(backend, () => {}, { key });
    expect(seen.steps("acquire")).toEqual(WELL);
    expect(seen.last("acquire")).toMatchObject({ result: "fail" });
  });

  test("a loss is published when it happens", async () => {
    const backend = createMemoryBackend();
    const seen = subscribe();
    const held = await hold(backend, { key, ttlMs: 60_000, autoExtend: true });
    await forceRelease(backend, { key });
    await until(() => seen.steps("hold").includes("error"), "the loss");
    expect(seen.steps("hold")).toEqual(["start", "end", "error"]);
    await held.release();
    expect(seen.steps("hold")).toEqual(BADLY);
    expect(seen.last("hold")).toMatchObject({ code: "LockLost", result: "fail" });
  });
});

describe("a backend's own operations", () => {
  test("publishes acquire, and extend and release of a handle", async () => {
    const backend = createMemoryBackend();
    const seen = subscribe();
    const held = await backend.acquire({ key, ttlMs: 60_000 });
    await held.extend(60_000);
    expect(seen.steps("hold")).toEqual(["start", "end"]);
    await held[Symbol.asyncDispose]();
    for (const kind of KINDS) {
      expect(seen.steps(kind)).toEqual(WELL);
      expect(seen.last(kind)).toMatchObject({ backend: "memory", result: "ok" });
    }
  });

  test("publishes release and extend by lockId, even if they find no lock", async () => {
    const backend = createMemoryBackend();
    const { lockId } = await backend.acquire({ key, ttlMs: 60_000 });
    const seen = subscribe();
    await backend.extend({ lockId, ttlMs: 60_000 });
    await backend.release({ lockId });
    expect(seen.last("extend")).toMatchObject({ result: "ok", lockIdHash: hashKey(lockId) });
    expect(seen.last("release")).toMatchObject({ result: "ok" });
    await backend.release({ lockId });
    expect(seen.last("release")).toMatchObject({ result: "fail" });
  });

  test("publishes an error", async () => {
    const backend = createMemoryBackend();
    const seen = subscribe();
    await expect(backend.acquire({ key, ttlMs: -1 })).rejects.toThrow();
    expect(seen.steps("acquire")).toEqual(BADLY);
    expect(seen.last("acquire")).toMatchObject({ code: "InvalidArgument", result: "fail" });
  });
});

test("no message shows a key or a lockId", async () => {
  const backend = createMemoryBackend();
  const seen = subscribe();
  let id;
  await lock(backend, ({ lockId }) => void (id = lockId), { key });
  await expect(backend.acquire({ key, ttlMs: -1 })).rejects.toThrow();
  const shown = inspect(seen.published, { depth: 9, showHidden: true });
  expect(seen.published.length).toBeGreaterThan(10);
  expect(shown).not.toContain(key);
  expect(shown).not.toContain(id);
});

test("a subscriber of one channel gets only its messages", async () => {
  const seen = subscribe(["hold"]);
  const backend = createMemoryBackend();
  await lock(backend, () => {}, { key });
  await (await backend.acquire({ key, ttlMs: 1000 })).release();
  expect(seen.steps("hold")).toEqual([...WELL, ...WELL]);
  expect(seen.published.every(({ kind }) => kind === "hold")).toBe(true);
});
