// One process of a hand-over test: it follows the test's requests and reports the times.

import { setTimeout as sleep } from "node:timers/promises";
import { hold, lead, lock } from "../fixtures/api.js";
import { now, serve } from "./process.js";

const { module, config } = JSON.parse(process.argv[2]);
const { open } = await import(module);
const backend = await open(config);
const held = new Map();
const waiting = new Map();

const FORMS = {
  lock,
  lead,
  async hold(backend, fn, config) {
    const handle = await hold(backend, config);
    try {
      return await fn(handle);
    } finally {
      await handle.release();
    }
  },
};

async function waitWith(backend, { key, name = key, form = "lock", workMs = 0, ...config }) {
  const controller = new AbortController();
  waiting.set(name, controller);
  const askedAt = now();
  try {
    return await FORMS[form](
      backend,
      async ({ fence }) => {
        const ran = { askedAt, ranAt: now(), ranAtMs: Date.now(), fence };
        if (workMs) await sleep(workMs);
        return { ...ran, leftAt: now() };
      },
      { key, signal: controller.signal, ...config },
    );
  } catch (error) {
    return { askedAt, failed: error.code ?? String(error), failedAt: now() };
  }
}

serve({
  async take({ key, ...config }) {
    held.set(key, await hold(backend, { key, ttlMs: 60_000, ...config }));
  },

  /** Returns when it began to. */
  async release({ key, delayMs = 0 }) {
    if (delayMs) await sleep(delayMs);
    const at = now();
    await held.get(key).release();
    return at;
  },

  /** `fresh`: on a backend that has no connection yet. `delayMs`: not at once. */
  async wait({ fresh = false, delayMs = 0, ...wait }) {
    if (delayMs) await sleep(delayMs);
    if (!fresh) return waitWith(backend, wait);
    const another = await open(config);
    try {
      return await waitWith(another, wait);
    } finally {
      await another.close();
    }
  },

  async abort({ name, delayMs = 0 }) {
    if (delayMs) await sleep(delayMs);
    waiting.get(name).abort();
  },

  /** Microseconds of CPU time so far. */
  cpu() {
    const { user, system } = process.cpuUsage();
    return user + system;
  },

  /** Ends what the test has left, so that another test can use this process. */
  async reset() {
    for (const controller of waiting.values()) controller.abort();
    waiting.clear();
    await Promise.allSettled([...held.values()].map((handle) => handle.release()));
    held.clear();
  },

  close: () => backend.close(),

  /** From then on only what is still under way keeps the process. */
  disconnect: () => setImmediate(() => process.disconnect()) && undefined,
});
