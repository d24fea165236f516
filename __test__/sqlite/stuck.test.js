// Another process is stopped in the middle of a write, so the file stays locked. Tests the errors of a
// lock() that waits, holds or ends, and how soon they come.

import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { rejection } from "../contracts/setup.js";
import { LockError, lock } from "../fixtures/api.js";
import { NOISE_MS, aborted, until, untilFree } from "../fixtures/wait.js";
import { testFolder } from "./folder.js";
import { open } from "./open.js";
import { startWriter } from "./stopped-writer.js";

const LIMIT_MS = 400;
const path = testFolder().file();
let writer, backend;

beforeAll(async () => {
  backend = open({ path, operationTimeoutMs: LIMIT_MS });
  writer = await startWriter(path);
});
afterEach(() => writer.resume());
afterAll(async () => {
  await writer.end();
  await backend.close();
});

const lockFile = () => writer.stop();
const unlockFile = () => writer.resume();

function expectTimeout(error) {
  expect(error).toBeInstanceOf(LockError);
  expect(error.code).toBe("NetworkTimeout");
}

test("single operations end with NetworkTimeout within operationTimeoutMs, and the error names the file", async () => {
  await lockFile();
  const lockId = "A".repeat(22);
  for (const operation of [
    () => backend.acquire({ key: "k", ttlMs: 60_000 }),
    () => backend.release({ lockId }),
    () => backend.extend({ lockId, ttlMs: 60_000 }),
  ]) {
    const since = performance.now();
    const error = await rejection(operation());
    const took = performance.now() - since;
    expectTimeout(error);
    expect(error.message).toContain(path);
    expect(took).toBeGreaterThanOrEqual(LIMIT_MS - 50);
    expect(took).toBeLessThan(LIMIT_MS + NOISE_MS);
  }
  unlockFile();
  await untilFree(backend, "k");
});

test("a wait ends after operationTimeoutMs or its own limit, and nothing stays locked", async () => {
  const held = await backend.acquire({ key: "waiting", ttlMs: 60_000 });
  await lockFile();
  const waits = [
    [{ retryDelayMs: 20, timeoutMs: 20_000 }, "NetworkTimeout", LIMIT_MS],
    [{ retryDelayMs: 20, timeoutMs: 200 }, "AcquisitionTimeout", 200],
  ];
  for (const [acquisition, code, limitMs] of waits) {
    const since = performance.now();
    const config = { key: "waiting", ttlMs: 60_000, acquisition };
    const error = await rejection(lock(backend, () => "entered", config));
    const took = performance.now() - since;
    expect(error.code).toBe(code);
    expect(took).toBeGreaterThanOrEqual(limitMs - 50);
    expect(took).toBeLessThan(limitMs + NOISE_MS);
  }
  unlockFile();
  await until(() => held.release().then(({ ok }) => ok));
  await untilFree(backend, "waiting");
});

test("a held lock is lost when its TTL is over, and the holder is notified", async () => {
  const failures = [];
  const ttlMs = 1_500;
  let lostAt;
  const outcome = await lock(
    backend,
    async ({ signal, isHeld }) => {
      await lockFile();
      const since = performance.now();
      const reason = await aborted(signal);
      lostAt = performance.now();
      expect(reason.code).toBe("LockLost");
      expectTimeout(reason.cause);
      expect(isHeld()).toBe(false);
      expect(lostAt - since).toBeLessThan(ttlMs + NOISE_MS);
      return "done";
    },
    { key: "holding", ttlMs, autoExtend: true, onReleaseError: (error) => failures.push(error) },
  );
  expect(outcome).toBe("done");
  expect(performance.now() - lostAt).toBeLessThan(LIMIT_MS + NOISE_MS);
  // The release of a lost lock is not waited for.
  await until(() => failures.length > 0);
  expect(failures).toHaveLength(1);
  expectTimeout(failures[0]);
});

test("a held lock survives if the file is free again in time", async () => {
  const ttlMs = 3_000;
  const since = performance.now();
  const kept = await lock(
    backend,
    async ({ signal, isHeld }) => {
      await lockFile();
      // One heartbeat cannot be written.
      await sleep(ttlMs / 2);
      unlockFile();
      await sleep(Math.max(0, since + ttlMs + 1_200 - performance.now()));
      return isHeld() && !signal.aborted;
    },
    { key: "kept", ttlMs, autoExtend: true },
  );
  expect(kept).toBe(true);
});

test("lock() returns the value, and the failed release is reported", async () => {
  const failures = [];
  let endedAt;
  const outcome = await lock(
    backend,
    async () => {
      await lockFile();
      endedAt = performance.now();
      return "done";
    },
    { key: "ending", ttlMs: 60_000, onReleaseError: (error) => failures.push(error) },
  );
  expect(performance.now() - endedAt).toBeLessThan(LIMIT_MS + NOISE_MS);
  expect(outcome).toBe("done");
  expect(failures).toHaveLength(1);
  expectTimeout(failures[0]);
});
