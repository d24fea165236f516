// The functions that people use with a backend: lock() waits, holds the lock and extends it.

import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { lockWith } from "../../lock/lock.js";
import { LONG_TTL_MS } from "../context.js";

const PATIENT = /** @type {const} */ ({
  maxRetries: Infinity,
  retryDelayMs: 5,
  backoff: "fixed",
  jitter: "full",
  timeoutMs: LONG_TTL_MS,
});

/** @type {Record<string, import("../suite.js").Behaviour>} */
export const working = {
  "lock-excludes": {
    title: "lock() lets one of many workers in at a time",
    async run(t) {
      const backend = await t.backend();
      const key = t.key();
      let [inside, most, done] = [0, 0, 0];
      const work = async () => {
        inside += 1;
        most = Math.max(most, inside);
        await new Promise((resolve) => setImmediate(resolve));
        inside -= 1;
        done += 1;
      };
      const config = { key, ttlMs: LONG_TTL_MS, acquisition: PATIENT };
      await Promise.all(Array.from({ length: 20 }, () => lockWith(backend, work, config)));
      assert.equal(most, 1, `${most} workers were inside at the same time`);
      assert.equal(done, 20);
      assert.equal(await backend.isLocked({ key }), false, "the key must be free in the end");
    },
  },

  "lock-extends": {
    title: "lock() with autoExtend keeps the lock beyond its ttl",
    async run(t) {
      const backend = await t.backend();
      const key = t.key();
      const work = async (/** @type {{ signal: AbortSignal }} */ { signal }) => {
        await sleep(2 * t.ttlMs + t.toleranceMs);
        assert.equal(signal.aborted, false, "the lock was lost although it was extended in time");
        assert.equal(await backend.isLocked({ key }), true, "the key was free meanwhile");
      };
      await lockWith(backend, work, { key, ttlMs: t.ttlMs, autoExtend: true });
      assert.equal(await backend.isLocked({ key }), false, "the key must be free in the end");
    },
  },
};
