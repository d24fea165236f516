// Input that a backend refuses, whatever it stores its locks in.

import assert from "node:assert/strict";
import { generateLockId } from "../../native/keys.js";
import { LONG_TTL_MS, rejectsWith } from "../context.js";

const BAD_KEYS = {
  "that is undefined": undefined,
  "that is null": null,
  "that is a number": 7,
  "that is empty": "",
  "of 513 bytes": "k".repeat(513),
  "of 513 bytes in 257 characters": `${"é".repeat(256)}k`,
  "with a lone surrogate": "a\ud800b",
};
const BAD_LOCK_IDS = { "that is null": null, "that is a number": 7, "that is empty": "" };
const BAD_TTLS = {
  ...{ "that is undefined": undefined, "that is a string": "1000", "of NaN": NaN },
  ...{ "of 0": 0, "of -1": -1, "of 1.5": 1.5, "of Infinity": Infinity },
};

/** @type {Record<string, import("../suite.js").Behaviour>} */
export const validating = {
  "invalid-key": {
    title: "an invalid key is an InvalidArgument",
    async run(t) {
      const backend = await t.backend();
      for (const [name, key] of Object.entries(BAD_KEYS)) {
        const refused = (/** @type {string} */ what, /** @type {() => Promise<any>} */ operation) =>
          rejectsWith(operation, "InvalidArgument", `${what} with a key ${name}`);
        await refused("acquire()", () => backend.acquire({ key, ttlMs: LONG_TTL_MS }));
        await refused("isLocked()", () => backend.isLocked({ key }));
        if (key !== undefined) await refused("lookup()", () => backend.lookup({ key }));
      }
    },
  },

  "invalid-lock-id": {
    title: "an invalid lockId is an InvalidArgument",
    async run(t) {
      const backend = await t.backend();
      for (const [name, lockId] of Object.entries(BAD_LOCK_IDS)) {
        const refused = (/** @type {string} */ what, /** @type {() => Promise<any>} */ operation) =>
          rejectsWith(operation, "InvalidArgument", `${what} with a lockId ${name}`);
        await refused("release()", () => backend.release({ lockId }));
        await refused("extend()", () => backend.extend({ lockId, ttlMs: 1000 }));
        await refused("lookup()", () => backend.lookup({ lockId }));
      }
    },
  },

  "invalid-ttl": {
    title: "a ttlMs that is not a positive integer is an InvalidArgument",
    async run(t) {
      const backend = await t.backend();
      const key = t.key();
      const lockId = generateLockId();
      for (const [name, ttlMs] of Object.entries(BAD_TTLS)) {
        const refused = (/** @type {string} */ what, /** @type {() => Promise<any>} */ operation) =>
          rejectsWith(operation, "InvalidArgument", `${what} with a ttlMs ${name}`);
        await refused("acquire()", () => backend.acquire({ key, ttlMs }));
        await refused("extend()", () => backend.extend({ lockId, ttlMs }));
      }
      assert.equal(await backend.isLocked({ key }), false, "a refused acquire() took effect");
    },
  },

  "invalid-lookup": {
    title: "lookup with both or neither of key and lockId is an InvalidArgument",
    async run(t) {
      const backend = await t.backend();
      const both = { key: t.key(), lockId: generateLockId() };
      await rejectsWith(() => backend.lookup(both), "InvalidArgument", "lookup() with both");
      await rejectsWith(() => backend.lookup({}), "InvalidArgument", "lookup() with neither");
    },
  },
};
