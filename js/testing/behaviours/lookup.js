// The results of lookup(), and what they show.

import assert from "node:assert/strict";
import { inspect } from "node:util";
import { generateLockId, hashKey } from "../../native/keys.js";

/** @type {Record<string, import("../suite.js").Behaviour>} */
export const lookingUp = {
  "lookup-info": {
    title: "lookup by key and by lockId returns the same sanitized info",
    async run(t) {
      const backend = await t.backend();
      const key = t.key();
      const lock = await t.acquire(backend, key, 60_000);
      const info = await backend.lookup({ key });
      assert.ok(
        info !== null && typeof info === "object",
        "lookup() must find a lock that is held",
      );
      const names = ["acquiredAtMs", "expiresAtMs", "keyHash", "lockIdHash"];
      if (t.supportsFencing) names.push("fence");
      const missing = names.filter((name) => info[name] === undefined);
      assert.deepEqual(missing, [], "lookup() must return all of these");
      assert.equal(info.keyHash, hashKey(key), "keyHash must be hashKey(key)");
      assert.equal(info.lockIdHash, hashKey(lock.lockId), "lockIdHash must be hashKey(lockId)");
      assert.equal(info.fence, lock.fence);
      assert.equal(info.expiresAtMs, lock.expiresAtMs);
      assert.deepEqual({ ...(await backend.lookup({ lockId: lock.lockId })) }, { ...info });
      await backend.release({ lockId: lock.lockId });
    },
  },

  "lookup-hides-secrets": {
    title: "a printed result of lookup shows neither the key nor the lockId",
    async run(t) {
      const backend = await t.backend();
      const key = t.key("secret");
      const { lockId } = await t.acquire(backend, key);
      for (const info of [await backend.lookup({ key }), await backend.lookup({ lockId })]) {
        for (const text of [JSON.stringify(info), String(info), inspect(info)]) {
          assert.ok(!text.includes(key), "a printed result of lookup() shows the key");
          assert.ok(!text.includes(lockId), "a printed result of lookup() shows the lockId");
        }
      }
      await backend.release({ lockId });
    },
  },

  "lookup-nothing": {
    title: "lookup returns null if there is no lock",
    async run(t) {
      const backend = await t.backend();
      const key = t.key();
      assert.equal(await backend.lookup({ key }), null, "a key that was never locked");
      assert.equal(await backend.lookup({ lockId: generateLockId() }), null, "an unknown lockId");
      const { lockId } = await t.acquire(backend, key);
      await backend.release({ lockId });
      assert.equal(await backend.lookup({ key }), null, "a key that was released");
      assert.equal(await backend.lookup({ lockId }), null, "a lock that was released");
    },
  },

  "lookup-expired": {
    title: "lookup does not find an expired lock",
    async run(t) {
      const backend = await t.backend();
      const key = t.key();
      const { lockId } = await t.acquire(backend, key, t.ttlMs);
      await t.untilExpired();
      assert.equal(await backend.lookup({ key }), null, "lookup({ key }) found an expired lock");
      assert.equal(await backend.lookup({ lockId }), null, "lookup({ lockId }) found one");
    },
  },

  "lookup-reads-only": {
    title: "lookup and isLocked change nothing",
    async run(t) {
      const backend = await t.backend();
      const key = t.key();
      const { lockId } = await t.acquire(backend, key);
      const before = await backend.lookup({ key });
      for (let i = 0; i < 5; i += 1) {
        await backend.lookup({ key });
        await backend.lookup({ lockId });
        await backend.isLocked({ key });
      }
      assert.deepEqual({ ...(await backend.lookup({ key })) }, { ...before });
      assert.equal((await backend.release({ lockId })).ok, true);
    },
  },
};
