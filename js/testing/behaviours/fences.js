// Fences: each lock has a number that is greater than those of all earlier locks of its key.

import assert from "node:assert/strict";
import { LONG_TTL_MS } from "../context.js";

/** @param {string[]} fences in the order in which the locks were granted */
function assertGrowing(fences) {
  fences.forEach((fence, index) => {
    if (index === 0) return;
    const earlier = fences[index - 1];
    assert.ok(fence > earlier, `a later lock got the fence ${fence} after ${earlier}`);
  });
}

/** @type {Record<string, import("../suite.js").Behaviour>} */
export const fencing = {
  "fence-format": {
    title: "a fence has 15 digits",
    needs: "fences",
    async run(t) {
      const backend = await t.backend();
      const { lockId, fence } = await t.acquire(backend, t.key());
      assert.match(fence, /^[0-9]{15}$/, "fences are compared as strings: see formatFence()");
      await backend.release({ lockId });
    },
  },

  "fences-grow": {
    title: "each lock of a key has a greater fence than the one before",
    needs: "fences",
    async run(t) {
      const backend = await t.backend();
      const key = t.key();
      const fences = [];
      for (let round = 0; round < 12; round += 1) {
        const { lockId, fence } = await t.acquire(backend, key);
        fences.push(fence);
        await backend.release({ lockId });
      }
      assertGrowing(fences);
    },
  },

  "fences-grow-contended": {
    title: "fences grow strictly under contention",
    needs: "fences",
    async run(t) {
      const backend = await t.backend();
      const key = t.key();
      /** @type {string[]} */
      const fences = [];
      const contender = async () => {
        for (let attempt = 0; attempt < 20; attempt += 1) {
          const lock = await backend.acquire({ key, ttlMs: LONG_TTL_MS });
          if (!lock.ok) continue;
          fences.push(lock.fence);
          await backend.release({ lockId: lock.lockId });
        }
      };
      await Promise.all(Array.from({ length: 8 }, contender));
      assert.ok(fences.length > 0, "nobody ever got the lock");
      assertGrowing(fences);
    },
  },

  "fences-survive-expiry": {
    title: "fences survive the expiry of a lock",
    needs: "fences",
    async run(t) {
      const backend = await t.backend();
      const key = t.key();
      const first = await t.acquire(backend, key, t.ttlMs);
      await t.untilExpired();
      const second = await t.acquire(backend, key);
      assertGrowing([first.fence, second.fence]);
      await backend.release({ lockId: second.lockId });
    },
  },

  "shared-fences": {
    title: "fences continue on a new backend with the same data",
    needs: "fences",
    async run(t) {
      const one = await t.backend();
      const key = t.key();
      const first = await t.acquire(one, key);
      await one.release({ lockId: first.lockId });
      const two = t.shared ? await t.backend() : one;
      const second = await t.acquire(two, key);
      assertGrowing([first.fence, second.fence]);
      await two.release({ lockId: second.lockId });
    },
  },
};
