import { inspect } from "node:util";
import { describe, expect, test } from "vitest";
import {
  generateLockId,
  getById,
  getByIdRaw,
  getByKey,
  getByKeyRaw,
  lookupDebug,
  owns,
} from "../fixtures/api.js";
import { hashOf } from "./setup.js";

export function lookup(t) {
  describe("lookup", () => {
    test("by key and by lockId: the same sanitized info", async () => {
      const backend = await t.backend();
      const key = t.key();
      const lock = await backend.acquire({ key, ttlMs: 60_000 });
      const info = await backend.lookup({ key });
      expect(Object.keys(info).sort()).toEqual(
        ["acquiredAtMs", "expiresAtMs", "fence", "keyHash", "lockIdHash"].sort(),
      );
      expect(info.keyHash).toBe(hashOf(key));
      expect(info.lockIdHash).toBe(hashOf(lock.lockId));
      expect(info.fence).toBe(lock.fence);
      expect(info.expiresAtMs).toBe(lock.expiresAtMs);
      expect(info.acquiredAtMs).toBe(lock.expiresAtMs - 60_000);
      expect(await backend.lookup({ lockId: lock.lockId })).toEqual(info);
      await lock.release();
    });

    test("what it returns does not show the key or the lockId when printed", async () => {
      const backend = await t.backend();
      const key = t.key("secret");
      const { lockId, release } = await backend.acquire({ key, ttlMs: 60_000 });
      for (const info of [await backend.lookup({ key }), await backend.lookup({ lockId })]) {
        for (const text of [JSON.stringify(info), String(info), inspect(info)]) {
          expect(text).not.toContain(key);
          expect(text).not.toContain(lockId);
        }
      }
      await release();
    });

    test("nothing there: null", async () => {
      const backend = await t.backend();
      const key = t.key();
      expect(await backend.lookup({ key })).toBeNull();
      expect(await backend.lookup({ lockId: generateLockId() })).toBeNull();
      const lock = await backend.acquire({ key, ttlMs: 60_000 });
      await lock.release();
      expect(await backend.lookup({ key })).toBeNull();
      expect(await backend.lookup({ lockId: lock.lockId })).toBeNull();
    });

    test("looking changes nothing", async () => {
      const backend = await t.backend();
      const key = t.key();
      const lock = await backend.acquire({ key, ttlMs: 60_000 });
      const before = await backend.lookup({ key });
      for (let i = 0; i < 5; i++) {
        await backend.lookup({ key });
        await backend.lookup({ lockId: lock.lockId });
        await backend.isLocked({ key });
      }
      expect(await backend.lookup({ key })).toEqual(before);
      expect((await lock.release()).ok).toBe(true);
    });

    test("getByKey, getById and owns", async () => {
      const backend = await t.backend();
      const key = t.key();
      const { lockId, release } = await backend.acquire({ key, ttlMs: 60_000 });
      const info = await backend.lookup({ key });
      expect(await getByKey(backend, key)).toEqual(info);
      expect(await getById(backend, lockId)).toEqual(info);
      expect(await owns(backend, lockId)).toBe(true);
      expect(await owns(backend, generateLockId())).toBe(false);
      await release();
      expect(await getByKey(backend, key)).toBeNull();
      expect(await getById(backend, lockId)).toBeNull();
      expect(await owns(backend, lockId)).toBe(false);
    });

    test("the raw helpers add key and lockId", async () => {
      const backend = await t.backend();
      const key = t.key();
      const { lockId, release } = await backend.acquire({ key, ttlMs: 60_000 });
      const raw = { ...(await backend.lookup({ key })), key, lockId };
      const seen = [
        await getByKeyRaw(backend, key),
        await getByIdRaw(backend, lockId),
        await lookupDebug(backend, { key }),
        await lookupDebug(backend, { lockId }),
      ];
      for (const info of seen) {
        expect(Object.fromEntries(Object.entries(info))).toEqual(
          Object.fromEntries(Object.entries(raw)),
        );
      }
      await release();
      expect(await getByKeyRaw(backend, key)).toBeNull();
      expect(await getByIdRaw(backend, lockId)).toBeNull();
      expect(await lookupDebug(backend, { key })).toBeNull();
    });

    test("helpers pass their signal on", async () => {
      const backend = await t.backend();
      const signal = AbortSignal.abort();
      const lockId = generateLockId();
      for (const call of [
        getByKey(backend, "k", { signal }),
        getById(backend, lockId, { signal }),
        getByKeyRaw(backend, "k", { signal }),
        getByIdRaw(backend, lockId, { signal }),
      ]) {
        await expect(call).rejects.toMatchObject({ name: "LockError", code: "Aborted" });
      }
    });
  });
}
