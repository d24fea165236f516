// A second implementation of the Redis format, over ioredis, with the scripts exactly as the
// specification prints them (spec/*.lua). It shares no code with the package.

import { createHash, randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";

const LIMIT = 1000;
const RESERVE = 26;
const TOLERANCE_MS = 1000;

const script = (name) => readFileSync(new URL(`./spec/${name}.lua`, import.meta.url), "utf8");

const bytes = (text) => Buffer.byteLength(text);

function storageKey(prefix, key) {
  const full = prefix === "" ? key : `${prefix}:${key}`;
  if (bytes(full) + RESERVE <= LIMIT) return full;
  const hash = createHash("sha256").update(full).digest().subarray(0, 16).toString("base64url");
  return prefix === "" ? hash : `${prefix}:${hash}`;
}

export function createSecond(redis, { keyPrefix = "syncguard" } = {}) {
  redis.defineCommand("specAcquire", { numberOfKeys: 3, lua: script("acquire") });
  redis.defineCommand("specReleaseOrExtend", { numberOfKeys: 1, lua: script("release-extend") });
  redis.defineCommand("specLookup", { numberOfKeys: 1, lua: script("lookup") });
  const prefix = keyPrefix.normalize("NFC").replace(/:+$/, "");
  const indexOf = (lockId) => storageKey(prefix, `id:${lockId}`);

  const parse = (json) => (json === null ? null : JSON.parse(json));

  const backend = {
    async acquire({ key: given, ttlMs }) {
      if (typeof given !== "string" || given === "") throw new TypeError("bad key");
      const key = given.normalize("NFC");
      if (bytes(key) > 512) throw new TypeError("long key");
      const lockId = randomBytes(16).toString("base64url");
      const lockKey = storageKey(prefix, key);
      const fenceKey = storageKey(prefix, `fence:${lockKey}`);
      const reply = await redis.specAcquire(
        ...[lockKey, indexOf(lockId), fenceKey],
        ...[lockId, ttlMs, TOLERANCE_MS, lockKey, key],
      );
      if (reply === 0) return { ok: false, reason: "locked" };
      const [, fence, expiresAtMs] = reply;
      return {
        ok: true,
        lockId,
        fence,
        expiresAtMs,
        release: () => backend.release({ lockId }),
        extend: (ms) => backend.extend({ lockId, ttlMs: ms }),
        [Symbol.asyncDispose]: async () => void (await backend.release({ lockId })),
      };
    },

    async release({ lockId }) {
      const reply = await redis.specReleaseOrExtend(indexOf(lockId), lockId, TOLERANCE_MS);
      return { ok: reply === 1 };
    },

    async extend({ lockId, ttlMs }) {
      const reply = await redis.specReleaseOrExtend(indexOf(lockId), lockId, TOLERANCE_MS, ttlMs);
      return Array.isArray(reply) ? { ok: true, expiresAtMs: reply[1] } : { ok: false };
    },

    /** Returns the stored value. */
    async lookupKey(key) {
      return parse(await redis.get(storageKey(prefix, key.normalize("NFC"))));
    },

    async lookupId(lockId) {
      return parse(await redis.specLookup(indexOf(lockId), lockId, TOLERANCE_MS));
    },
  };
  return backend;
}
