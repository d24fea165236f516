// What acquire() grants and refuses.

import assert from "node:assert/strict";
import { LONG_TTL_MS } from "../context.js";

const CONTENDERS = 50;

/** @type {Record<string, import("../suite.js").Behaviour>} */
export const acquiring = {
  capabilities: {
    title: "capabilities say whether there are fences, and whose clock decides",
    async run(t) {
      const { capabilities } = await t.backend();
      assert.equal(
        capabilities?.supportsFencing,
        t.supportsFencing,
        "capabilities.supportsFencing must be what testBackend({ supportsFencing }) says (default true)",
      );
      assert.ok(
        ["server", "client"].includes(capabilities.timeAuthority),
        'capabilities.timeAuthority must be "server" or "client"',
      );
    },
  },

  "acquire-result": {
    title: "acquire returns a lockId of its own and when the lock expires",
    async run(t) {
      const backend = await t.backend();
      const key = t.key();
      assert.equal(await backend.isLocked({ key }), false, "isLocked() of a free key");
      const lock = await t.acquire(backend, key);
      assert.equal(typeof lock.lockId, "string", "lockId must be a string");
      assert.notEqual(lock.lockId, "", "lockId must not be empty");
      assert.ok(Number.isSafeInteger(lock.expiresAtMs), "expiresAtMs must be whole milliseconds");
      assert.equal(await backend.isLocked({ key }), true, "isLocked() of a held key");
      assert.equal((await backend.release({ lockId: lock.lockId })).ok, true);
      const next = await t.acquire(backend, key);
      assert.notEqual(next.lockId, lock.lockId, "every lock must get a lockId of its own");
      await backend.release({ lockId: next.lockId });
    },
  },

  "expires-at": {
    title: "expiresAtMs is the backend's time plus ttlMs",
    async run(t) {
      const backend = await t.backend();
      const key = t.key();
      const lock = await t.acquire(backend, key, 60_000);
      const info = await backend.lookup({ key });
      assert.equal(info?.expiresAtMs, lock.expiresAtMs, "lookup() and acquire() must agree");
      assert.equal(info.acquiredAtMs + 60_000, lock.expiresAtMs, "acquiredAtMs + ttlMs");
      await backend.release({ lockId: lock.lockId });
    },
  },

  "held-key-refused": {
    title: "a held key is refused, even to its holder, and the lock does not change",
    async run(t) {
      const backend = await t.backend();
      const key = t.key();
      const lock = await t.acquire(backend, key);
      const before = await backend.lookup({ key });
      for (let attempt = 0; attempt < 3; attempt += 1) {
        const refused = await backend.acquire({ key, ttlMs: 1 });
        assert.equal(refused.ok, false, "acquire() of a held key must return { ok: false }");
        assert.equal(refused.reason, "locked", 'the reason must be "locked"');
      }
      assert.deepEqual({ ...(await backend.lookup({ key })) }, { ...before });
      assert.equal((await backend.release({ lockId: lock.lockId })).ok, true);
    },
  },

  "one-winner": {
    title: "of many acquires at once, exactly one succeeds",
    async run(t) {
      const backend = await t.backend();
      const key = t.key();
      const results = await Promise.all(
        Array.from({ length: CONTENDERS }, () => backend.acquire({ key, ttlMs: LONG_TTL_MS })),
      );
      const winners = results.filter(({ ok }) => ok);
      assert.equal(winners.length, 1, `${winners.length} of ${CONTENDERS} got the same lock`);
      const refused = results.filter(({ reason }) => reason === "locked");
      assert.equal(refused.length, CONTENDERS - 1, 'all others must be refused as "locked"');
      await backend.release({ lockId: winners[0].lockId });
    },
  },

  "independent-keys": {
    title: "keys do not disturb each other",
    async run(t) {
      const backend = await t.backend();
      const keys = Array.from({ length: 20 }, () => t.key());
      const locks = await Promise.all(keys.map((key) => t.acquire(backend, key)));
      await backend.release({ lockId: locks[0].lockId });
      const held = await Promise.all(keys.map((key) => backend.isLocked({ key })));
      assert.deepEqual(
        held,
        keys.map((_, index) => index > 0),
      );
      await Promise.all(locks.map(({ lockId }) => backend.release({ lockId })));
    },
  },

  "shared-locks": {
    title: "two backends on one namespace exclude each other",
    needs: "shared",
    async run(t) {
      const [one, two] = [await t.backend(), await t.backend()];
      const key = t.key();
      const lock = await t.acquire(one, key);
      const { lockId } = lock;
      const refused = await two.acquire({ key, ttlMs: LONG_TTL_MS });
      assert.equal(
        refused.ok,
        false,
        "a second backend got the same lock. If two backends from create() share nothing by design, pass shared: false",
      );
      assert.equal(await two.isLocked({ key }), true);
      assert.equal((await two.lookup({ lockId }))?.expiresAtMs, lock.expiresAtMs);
      assert.equal((await two.extend({ lockId, ttlMs: LONG_TTL_MS })).ok, true);
      assert.equal((await two.release({ lockId })).ok, true);
      assert.equal((await one.release({ lockId })).ok, false, "released twice");
      const next = await t.acquire(two, key);
      await one.release({ lockId: next.lockId });
    },
  },
};
