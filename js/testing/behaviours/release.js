// Who can release a lock, and what a release frees.

import assert from "node:assert/strict";
import { generateLockId } from "../../native/keys.js";
import { LONG_TTL_MS } from "../context.js";

/** @type {Record<string, import("../suite.js").Behaviour>} */
export const releasing = {
  "release-once": {
    title: "a lock id releases once, and never again",
    async run(t) {
      const backend = await t.backend();
      const key = t.key();
      const { lockId } = await t.acquire(backend, key);
      assert.equal((await backend.release({ lockId })).ok, true);
      assert.equal(await backend.isLocked({ key }), false, "a released key must be free");
      assert.equal((await backend.release({ lockId })).ok, false, "a second release");
      assert.equal((await backend.release({ lockId })).ok, false, "a third release");
    },
  },

  "one-release": {
    title: "of many releases at once, exactly one succeeds",
    async run(t) {
      const backend = await t.backend();
      const { lockId } = await t.acquire(backend, t.key());
      const results = await Promise.all(
        Array.from({ length: 20 }, () => backend.release({ lockId })),
      );
      assert.equal(results.filter(({ ok }) => ok).length, 1);
    },
  },

  "unknown-lock": {
    title: "release and extend of an unknown lock do nothing",
    async run(t) {
      const backend = await t.backend();
      const lockId = generateLockId();
      assert.equal((await backend.release({ lockId })).ok, false);
      assert.equal((await backend.extend({ lockId, ttlMs: 1000 })).ok, false);
    },
  },

  "stale-lock-id": {
    title: "the id of an earlier lock has no power over the next one",
    async run(t) {
      const backend = await t.backend();
      const key = t.key();
      const { lockId } = await t.acquire(backend, key);
      await backend.release({ lockId });
      const second = await t.acquire(backend, key);
      assert.equal((await backend.release({ lockId })).ok, false, "release by a former holder");
      assert.equal((await backend.extend({ lockId, ttlMs: 1 })).ok, false, "extend by one");
      assert.equal(await backend.lookup({ lockId }), null, "lookup of the former lock");
      const info = await backend.lookup({ key });
      assert.equal(info?.expiresAtMs, second.expiresAtMs, "the new lock must stay as it was");
      assert.equal((await backend.release({ lockId: second.lockId })).ok, true);
    },
  },

  "foreign-lock-id": {
    title: "a lock id belongs to one key: releasing it frees only that one",
    async run(t) {
      const backend = await t.backend();
      const [a, b] = [t.key("a"), t.key("b")];
      const lockA = await t.acquire(backend, a, LONG_TTL_MS);
      const lockB = await t.acquire(backend, b, LONG_TTL_MS);
      await backend.release({ lockId: generateLockId() });
      assert.equal(await backend.isLocked({ key: a }), true, "a stranger released the lock");
      await backend.release({ lockId: lockA.lockId });
      assert.equal(await backend.isLocked({ key: a }), false);
      assert.equal(await backend.isLocked({ key: b }), true, "the other key was freed too");
      await backend.release({ lockId: lockB.lockId });
    },
  },
};
