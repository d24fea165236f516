// Requests that wait for another session do not take the connections that heartbeats need.

import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { hold } from "../fixtures/api.js";
import { until } from "../fixtures/wait.js";
import { connect, open, tables } from "./open.js";

/** Of the advisory locks with which acquires of one key take turns. */
const CLASS = 1398361667;
const ttlMs = 3_000;
const newKey = () => `nightly:${randomBytes(6).toString("hex")}`;
let sql;
beforeAll(() => void (sql = connect(undefined, { max: 10 })));
afterAll(() => sql.end());

/** Keeps this many acquires of `key` under way until it is told to stop. */
function acquireAgainAndAgain(backend, key, count) {
  let stopped = false;
  const outcomes = [];
  const workers = Array.from({ length: count }, async () => {
    while (!stopped) {
      const outcome = await backend.acquire({ key, ttlMs: 60_000 }).catch((error) => error.code);
      outcomes.push(typeof outcome === "string" ? outcome : outcome.ok);
      // A refused attempt is answered at once.
      await sleep(20);
    }
  });
  return {
    outcomes,
    stop: () => ((stopped = true), Promise.all(workers)),
  };
}

/** Holds an unrelated lock for longer than it would last without heartbeats. */
async function survives(backend, during) {
  const unrelated = await hold(backend, { key: "unrelated", ttlMs, autoExtend: true });
  await during();
  expect(unrelated.signal.aborted).toBe(false);
  expect(unrelated.isHeld()).toBe(true);
  expect(await backend.isLocked({ key: "unrelated" })).toBe(true);
  await unrelated.release();
}

describe.concurrent.each([{ poolSize: 1 }, { poolSize: 2 }, {}])("with %j", (options) => {
  test("an application holds the advisory lock on hashtext(key): acquires do not wait for it", async ({
    expect,
  }) => {
    const backend = await open({ ...tables(), operationTimeoutMs: 5_000, ...options });
    const key = newKey();
    const application = await sql.reserve();
    await application`SELECT pg_advisory_lock(hashtext(${key}))`;
    try {
      await survives(backend, async () => {
        const acquires = acquireAgainAndAgain(backend, key, 20);
        await sleep(2.5 * ttlMs);
        await acquires.stop();
        expect(acquires.outcomes.filter((outcome) => outcome === true)).toHaveLength(1);
        expect(acquires.outcomes.filter((outcome) => typeof outcome === "string")).toEqual([]);
      });
    } finally {
      await application`SELECT pg_advisory_unlock(hashtext(${key}))`;
      application.release();
      await backend.close();
    }
  }, 60_000);

  test("acquires that keep waiting do not delay the heartbeats of other locks", async ({
    expect,
  }) => {
    const backend = await open({ ...tables(), operationTimeoutMs: 5_000, ...options });
    const key = newKey();
    const stranger = await sql.reserve();
    await stranger`SELECT pg_advisory_lock(${CLASS}, hashtext(${key}))`;
    try {
      await survives(backend, async () => {
        const acquires = acquireAgainAndAgain(backend, key, 20);
        await sleep(2.5 * ttlMs);
        expect(new Set(acquires.outcomes)).toEqual(new Set(["NetworkTimeout"]));
        await stranger`SELECT pg_advisory_unlock(${CLASS}, hashtext(${key}))`;
        await until(() => acquires.outcomes.includes(true), "a lock");
        await acquires.stop();
      });
    } finally {
      stranger.release();
      await backend.close();
    }
  }, 60_000);

  test("heartbeats that wait for locked rows do not delay those of other locks", async () => {
    const names = tables();
    const backend = await open({ ...names, operationTimeoutMs: 5_000, ...options });
    const keys = Array.from({ length: 10 }, (_, index) => `stuck:${index}`);
    const stuck = await Promise.all(
      keys.map((key) => hold(backend, { key, ttlMs: 30_000, autoExtend: true })),
    );
    const stranger = await sql.reserve();
    await stranger`BEGIN`;
    await stranger`SELECT FROM ${sql(names.tableName)} WHERE key LIKE 'stuck:%' FOR UPDATE`;
    try {
      await survives(backend, async () => {
        // The automatic heartbeats come too late for this test.
        let done = false;
        const extending = stuck.map(async (held) => {
          while (!done) await held.extend(30_000).catch(() => {});
        });
        await sleep(2.5 * ttlMs);
        done = true;
        await stranger`ROLLBACK`;
        await Promise.all(extending);
      });
      for (const held of stuck) expect(held.isHeld()).toBe(true);
    } finally {
      stranger.release();
      await Promise.all(stuck.map((held) => held.release()));
      await backend.close();
    }
  }, 60_000);
});
