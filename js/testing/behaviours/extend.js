// What extend() changes, and what it leaves alone.

import assert from "node:assert/strict";
import { LONG_TTL_MS } from "../context.js";

/** @type {Record<string, import("../suite.js").Behaviour>} */
export const extending = {
  "extend-replaces-ttl": {
    title: "extend replaces the ttl: it can lengthen and shorten",
    async run(t) {
      const backend = await t.backend();
      const key = t.key();
      const lock = await t.acquire(backend, key, 60_000);
      const { lockId } = lock;
      const longer = await backend.extend({ lockId, ttlMs: 120_000 });
      assert.equal(longer.ok, true);
      assert.ok(longer.expiresAtMs >= lock.expiresAtMs + 60_000, "ttlMs counts from now");
      assert.equal((await backend.lookup({ key }))?.expiresAtMs, longer.expiresAtMs);
      const shorter = await backend.extend({ lockId, ttlMs: 30_000 });
      assert.equal(shorter.ok, true);
      assert.ok(shorter.expiresAtMs < longer.expiresAtMs, "a shorter ttlMs brings the end nearer");
      assert.equal((await backend.lookup({ key }))?.expiresAtMs, shorter.expiresAtMs);
      await backend.release({ lockId });
    },
  },

  "extend-keeps-lock": {
    title: "extend keeps owner, fence and acquiredAtMs",
    async run(t) {
      const backend = await t.backend();
      const key = t.key();
      const { lockId } = await t.acquire(backend, key, 60_000);
      const before = await backend.lookup({ key });
      const { expiresAtMs } = await backend.extend({ lockId, ttlMs: 90_000 });
      assert.deepEqual({ ...(await backend.lookup({ key })) }, { ...before, expiresAtMs });
      await backend.release({ lockId });
    },
  },

  "extend-released": {
    title: "extend of a released lock does not bring it back",
    async run(t) {
      const backend = await t.backend();
      const key = t.key();
      const { lockId } = await t.acquire(backend, key);
      await backend.release({ lockId });
      assert.equal((await backend.extend({ lockId, ttlMs: LONG_TTL_MS })).ok, false);
      assert.equal(await backend.isLocked({ key }), false, "extend() locked the key again");
    },
  },
};
