// The tools of every part of the hand-over suite: processes, keys and the state of the server.

import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll } from "vitest";
import { startProcess } from "./process.js";

const WORKER = new URL("./worker.js", import.meta.url);
const OPERATIONS = ["take", "release", "wait", "abort", "cpu"];

/**
 * @param {object} spec
 * @param {URL} spec.module exports `open(config)`, a backend
 * @param {() => Promise<Store>} spec.start a store that nobody else uses
 * @param {number} [spec.toleranceMs] how long after its ttl a lock is still respected
 * @param {number} [spec.rounds] of releases against waits
 * @param {URL} [spec.worker] the program of a process
 * @param {string[]} [spec.operations] what it does on request, besides `reset`, `close` and `disconnect`
 *
 * @typedef {object} Store
 * @property {object} config for `open`
 * @property {() => Promise<void>} stop
 * @property {() => Promise<number>} [watchers] how many connections of waiters the server has
 * @property {() => Promise<void>} [cutWatchers] cuts those connections
 * @property {() => Promise<void>} [untilWatched] until there is one again
 * @property {() => Promise<void>} [restart]
 * @property {() => Promise<number>} [commands] how many the server was sent since the last call
 */
export function setup({
  module,
  start,
  toleranceMs = 0,
  rounds,
  worker = WORKER,
  operations = OPERATIONS,
}) {
  const inUse = new Set();
  /** Starting a process costs more than most tests, so the next test uses those that are left. */
  const idle = [];
  const t = {
    toleranceMs,
    rounds,
    /** @type {Store} */
    store: undefined,
    /** A backend of this process. */
    backend: undefined,
    key: () => `key:${randomBytes(6).toString("hex")}`,
    /** A process of this test. One with options of its own is not used again. */
    async process({ config, env } = {}) {
      const isPlain = config === undefined && env === undefined;
      const process = (isPlain && idle.pop()) || (await launch(config ?? t.store.config, env));
      process.isReusable = isPlain;
      inUse.add(process);
      return process;
    },
    /** Starts a few processes at a time. More would take each other's time until they are ready. */
    async processes(count) {
      const started = [];
      while (started.length < count) {
        const batch = Array.from({ length: Math.min(4, count - started.length) }, () =>
          t.process(),
        );
        started.push(...(await Promise.all(batch)));
      }
      return started;
    },
    /** Returns the processes of the test that has ended, unless it has ended them. */
    async recycle() {
      const processes = [...inUse];
      inUse.clear();
      await Promise.all(
        processes.map(async (process) => {
          if (!process.isReusable) return process.kill();
          await process.call("reset");
          idle.push(process);
        }),
      );
    },
    async killProcesses() {
      const processes = [...inUse, ...idle.splice(0)];
      inUse.clear();
      await Promise.all(processes.map((process) => process.kill()));
    },
  };

  async function launch(config, env) {
    const process = await startProcess(worker, { module: String(module), config }, { env });
    const started = { ...process };
    for (const name of operations) {
      started[name] = (options) => process.call(name, options);
    }
    // No other test can use a process that has ended, or is about to.
    const ending = (end) => () => {
      started.isReusable = false;
      return end();
    };
    started.close = ending(() => process.call("close"));
    started.disconnect = ending(() => process.call("disconnect"));
    started.kill = ending(process.kill);
    return started;
  }

  beforeAll(async () => {
    t.store = await start();
    const { open } = await import(String(module));
    t.backend = await open(t.store.config);
  });
  afterAll(async () => {
    await t.killProcesses();
    await t.backend?.close();
    await t.store?.stop();
  });
  return t;
}

/** Long enough that the default back-off is far from its next attempt. */
export const HOLD_MS = 1_500;

/** With these settings a waiter makes an attempt only when it is notified. */
export const ONLY_WHEN_TOLD = {
  acquisition: { retryDelayMs: 60_000, timeoutMs: 20_000, jitter: "none" },
};

/** The time until a new waiter is watching its key. */
export const untilWaiting = () => sleep(500);
