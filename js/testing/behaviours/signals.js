// The effect of an AbortSignal on each operation.

import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { LONG_TTL_MS, rejectsWith } from "../context.js";

/**
 * @param {any} backend
 * @param {string} key
 * @param {string} lockId
 * @param {AbortSignal} signal
 * @returns {[string, () => Promise<any>][]}
 */
const operations = (backend, key, lockId, signal) => [
  ["acquire()", () => backend.acquire({ key, ttlMs: LONG_TTL_MS, signal })],
  ["release()", () => backend.release({ lockId, signal })],
  ["extend()", () => backend.extend({ lockId, ttlMs: LONG_TTL_MS, signal })],
  ["isLocked()", () => backend.isLocked({ key, signal })],
  ["lookup({ key })", () => backend.lookup({ key, signal })],
  ["lookup({ lockId })", () => backend.lookup({ lockId, signal })],
];

/** @param {AbortSignal} signal */
const listeners = (signal) => getEventListeners(signal, "abort").length;

/** @type {Record<string, import("../suite.js").Behaviour>} */
export const cancelling = {
  "aborted-signal": {
    title: "an operation with an aborted signal does nothing",
    async run(t) {
      const backend = await t.backend();
      const held = await t.acquire(backend, t.key());
      const { lockId } = held;
      const key = t.key();
      const signal = AbortSignal.abort(new Error("the caller's reason"));
      for (const [name, operation] of operations(backend, key, lockId, signal)) {
        await rejectsWith(operation, "Aborted", `${name} with an aborted signal`);
      }
      assert.equal(listeners(signal), 0, "a listener was left on the signal");
      assert.equal((await backend.lookup({ lockId }))?.expiresAtMs, held.expiresAtMs);
      assert.equal(await backend.isLocked({ key }), false, "an aborted acquire() took effect");
      await backend.release({ lockId });
    },
  },

  "aborted-in-flight": {
    title: "an operation that is aborted in flight either happened or rejects",
    async run(t) {
      const backend = await t.backend();
      const names = operations(backend, "", "", new AbortController().signal).length;
      for (let round = 0; round < 3 * names; round += 1) {
        const held = await t.acquire(backend, t.key());
        const key = t.key();
        const { signal, abort } = abortable();
        const [name, operation] = operations(backend, key, held.lockId, signal)[round % names];
        const pending = operation();
        if (round % 2 === 1) await new Promise((resolve) => setImmediate(resolve));
        abort();
        const error = await pending.then(
          (value) => (name === "acquire()" ? backend.release({ lockId: value.lockId }) : undefined),
          (thrown) => thrown,
        );
        if (error instanceof Error) {
          await rejectsWith(() => Promise.reject(error), "Aborted", name);
          // A lock that the store granted in the meantime must be released long before its TTL.
          await t.untilFree(backend, key);
        }
        assert.equal(listeners(signal), 0, `${name} left a listener on its signal`);
        await backend.release({ lockId: held.lockId });
      }
    },
  },

  "signal-listeners": {
    title: "an operation leaves no listener on its signal",
    async run(t) {
      const backend = await t.backend();
      const { lockId } = await t.acquire(backend, t.key());
      const { signal } = new AbortController();
      for (const [name, operation] of operations(backend, t.key(), lockId, signal)) {
        await operation();
        await operation(); // The second call is refused or finds nothing, which takes another path.
        assert.equal(listeners(signal), 0, `${name} left a listener on its signal`);
      }
    },
  },
};

function abortable() {
  const controller = new AbortController();
  return { signal: controller.signal, abort: () => controller.abort() };
}
