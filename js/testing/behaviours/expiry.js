// The expiry of a lock, and what its holder can still do afterwards.

import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { CLOCK_GRAIN_MS, LONG_TTL_MS } from "../context.js";

/** @type {Record<string, import("../suite.js").Behaviour>} */
export const expiring = {
  expires: {
    title: "a lock is gone after its ttl and the tolerance, and never before its ttl",
    async run(t) {
      const backend = await t.backend();
      const key = t.key();
      const askedAt = performance.now();
      await t.acquire(backend, key, t.ttlMs);
      const { freeAt } = await t.untilFree(backend, key);
      assert.ok(freeAt - askedAt >= t.ttlMs - CLOCK_GRAIN_MS, "the lock expired before its ttl");
    },
  },

  "expired-acquired": {
    title: "acquire is refused until the lock is gone, then succeeds",
    async run(t) {
      const backend = await t.backend();
      const key = t.key();
      const askedAt = performance.now();
      await t.acquire(backend, key, t.ttlMs);
      const giveUpAt = performance.now() + t.ttlMs + t.toleranceMs + CLOCK_GRAIN_MS;
      for (;;) {
        const triedAt = performance.now();
        const next = await backend.acquire({ key, ttlMs: LONG_TTL_MS });
        if (next.ok) {
          const wait = performance.now() - askedAt;
          assert.ok(wait >= t.ttlMs - CLOCK_GRAIN_MS, "granted before the lock's ttl was over");
          await backend.release({ lockId: next.lockId });
          return;
        }
        assert.ok(triedAt <= giveUpAt, "an expired lock must not keep others from the key");
        await sleep(CLOCK_GRAIN_MS);
      }
    },
  },

  "expired-stays-expired": {
    title: "an expired lock can be neither extended nor released",
    async run(t) {
      const backend = await t.backend();
      const key = t.key();
      const { lockId } = await t.acquire(backend, key, t.ttlMs);
      await t.untilExpired();
      const extended = await backend.extend({ lockId, ttlMs: LONG_TTL_MS });
      assert.equal(extended.ok, false, "extend() must not bring an expired lock back");
      assert.equal(await backend.isLocked({ key }), false, "extend() locked the key again");
      const released = await backend.release({ lockId });
      assert.equal(released.ok, false, "an expired lock cannot be released");
    },
  },

  "expired-owner": {
    title: "the owner of an expired lock cannot touch the next owner's",
    async run(t) {
      const backend = await t.backend();
      const key = t.key();
      const { lockId } = await t.acquire(backend, key, t.ttlMs);
      await t.untilExpired();
      const next = await t.acquire(backend, key);
      assert.equal((await backend.extend({ lockId, ttlMs: 1 })).ok, false);
      assert.equal((await backend.release({ lockId })).ok, false);
      assert.equal(await backend.lookup({ lockId }), null);
      assert.equal((await backend.lookup({ key }))?.expiresAtMs, next.expiresAtMs);
      assert.equal((await backend.release({ lockId: next.lockId })).ok, true);
    },
  },

  "extend-keeps-alive": {
    title: "extend keeps a lock alive beyond its first ttl",
    async run(t) {
      const backend = await t.backend();
      const key = t.key();
      const { lockId } = await t.acquire(backend, key, t.ttlMs);
      assert.equal((await backend.extend({ lockId, ttlMs: LONG_TTL_MS })).ok, true);
      await t.untilExpired();
      assert.equal(await backend.isLocked({ key }), true, "an extended lock must not expire");
      assert.notEqual(await backend.lookup({ lockId }), null);
      assert.equal((await backend.release({ lockId })).ok, true);
    },
  },

  "extend-shortens": {
    title: "extend with a shorter ttl makes the lock expire sooner",
    async run(t) {
      const backend = await t.backend();
      const key = t.key();
      const { lockId } = await t.acquire(backend, key);
      assert.equal((await backend.extend({ lockId, ttlMs: t.ttlMs })).ok, true);
      await t.untilFree(backend, key);
      assert.equal((await backend.release({ lockId })).ok, false);
    },
  },
};
