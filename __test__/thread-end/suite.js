// A lock that was granted to a worker thread, but not delivered before the thread ended, has no owner:
// it must not stay locked until its TTL. A lock that was delivered to the program stays locked.

import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import { Worker } from "node:worker_threads";
import { expect, test } from "vitest";
import { createBackend } from "../../js/index.js";
import { until } from "../fixtures/wait.js";

const WORKER = new URL("./worker.js", import.meta.url);
/** More locks than one call into JavaScript delivers. */
const LOCKS = 150;

/**
 * Resolves once exactly these keys are locked, five times in a row: a request that the thread had sent
 * before it ended may still acquire its key, and is undone then.
 * @param {string[]} keys
 * @param {() => Promise<string[]>} lockedKeys
 */
async function untilOnly(keys, lockedKeys) {
  let inARow = 0;
  await until(async () => {
    inARow = isDeepStrictEqual(await lockedKeys(), keys) ? inARow + 1 : 0;
    return inARow === 5;
  }, "only what reached the program to be locked");
}

/**
 * @param {string} name
 * @param {() => { url: string, options?: object }} target
 */
export function threadEnd(name, target) {
  /** Runs the worker until it ends by itself, or `terminate` resolves; returns what is left. */
  async function run(form, end, terminate) {
    const { url, options } = target();
    const backend = createBackend(url, options);
    const unique = randomBytes(6).toString("hex");
    const keys = Array.from({ length: LOCKS }, (_, i) => `${unique}:${i}`);
    const flags = new SharedArrayBuffer(4 * (LOCKS + 2));
    const worker = new Worker(WORKER, {
      workerData: { url, options, keys, form, end, flags },
      execArgv: [],
    });
    const exited = once(worker, "exit");
    const received = new Int32Array(flags);
    const is = (flag) => received[LOCKS + flag] === 1;
    await terminate?.({ isStarted: () => is(0), isBusy: () => is(1), backend, keys });
    if (terminate !== undefined) await worker.terminate();
    await exited;
    const lockedKeys = async () => {
      const locked = await Promise.all(keys.map((key) => backend.isLocked({ key })));
      return keys.filter((_, i) => locked[i]);
    };
    const receivedKeys = keys.filter((_, i) => received[i] === 1);
    return { backend, lockedKeys, receivedKeys };
  }

  const isBusy = (worker) => until(() => worker.isBusy(), "the worker to be busy");

  test(`${name}: what reached the program stays locked, the rest is free: terminated`, async () => {
    const { lockedKeys, receivedKeys } = await run("acquire", "busy", isBusy);
    expect(receivedKeys).toHaveLength(1);
    await untilOnly(receivedKeys, lockedKeys);
  });

  test(`${name}: what reached the program stays locked, the rest is free: exit`, async () => {
    const { lockedKeys, receivedKeys } = await run("acquire", "exit");
    expect(receivedKeys).toHaveLength(1);
    await untilOnly(receivedKeys, lockedKeys);
  });

  test(`${name}: nothing stays locked that came while the thread was busy`, async () => {
    const { lockedKeys, receivedKeys } = await run("acquire", "deaf", async (worker) => {
      await isBusy(worker);
      // Either the grants are there and nobody has read them, or they are under way.
      await sleep(100);
    });
    expect(receivedKeys).toEqual([]);
    await untilOnly([], lockedKeys);
  });

  test(`${name}: what is held ends with the thread, at any moment`, async () => {
    for (let round = 0; round < 8; round++) {
      const { lockedKeys } = await run("hold", "none", async (worker) => {
        await until(() => worker.isStarted(), "the worker to start");
        await sleep(2 * round);
      });
      await untilOnly([], lockedKeys);
    }
  }, 120_000);
}
