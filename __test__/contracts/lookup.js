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
    test("getByKey, getById and owns", async () => {
      const backend = await t.backend();
      const key = t.key();
      const { lockId, release } = await backend.acquire({ key, ttlMs: 60_000 });
      const info = await backend.lookup({ key });
      const { expiresAtMs, acquiredAtMs, fence } = info;
      expect(Object.keys(info).sort()).toEqual(
        ["acquiredAtMs", "expiresAtMs", "fence", "keyHash", "lockIdHash"].sort(),
      );
      const [keyHash, lockIdHash] = [hashOf(key), hashOf(lockId)];
      expect(info).toEqual({ keyHash, lockIdHash, expiresAtMs, acquiredAtMs, fence });
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
