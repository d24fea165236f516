import { describe, expect, test } from "vitest";
import { ODD_KEYS } from "../../js/testing/behaviours/keys.js";
import { generateLockId, getByKeyRaw } from "../fixtures/api.js";

export function keys(t) {
  describe("keys", () => {
    let opened;
    const backend = () => (opened ??= t.isolated());

    test.each(Object.entries(ODD_KEYS))("%s is a key like any other", async (_, key) => {
      const b = await backend();
      const lock = await b.acquire({ key, ttlMs: 60_000 });
      expect(lock.ok).toBe(true);
      expect(lock.fence).toBe("000000000000001");
      expect(await b.isLocked({ key })).toBe(true);
      expect((await b.acquire({ key, ttlMs: 60_000 })).ok).toBe(false);
      expect((await getByKeyRaw(b, key)).key).toBe(key.normalize("NFC"));
      expect((await b.extend({ lockId: lock.lockId, ttlMs: 60_000 })).ok).toBe(true);
      expect((await b.release({ lockId: lock.lockId })).ok).toBe(true);
      expect(await b.isLocked({ key })).toBe(false);
      const again = await b.acquire({ key, ttlMs: 60_000 });
      expect(again.fence).toBe("000000000000002");
      await again.release();
    });

    test("a key that looks like the records of another lock does not reach them", async () => {
      const b = await backend();
      const key = t.key("victim");
      const lock = await b.acquire({ key, ttlMs: 60_000 });
      for (const attack of [
        `fence:${key}`,
        `fence:fence:${key}`,
        `id:${lock.lockId}`,
        `id:${generateLockId()}`,
        lock.lockId,
        `${key}:fence`,
      ]) {
        const other = await b.acquire({ key: attack, ttlMs: 60_000 });
        expect(other.ok).toBe(true);
        expect((await other.release()).ok).toBe(true);
      }
      expect((await b.lookup({ lockId: lock.lockId })).fence).toBe(lock.fence);
      expect((await lock.release()).ok).toBe(true);
      const next = await b.acquire({ key, ttlMs: 60_000 });
      expect(next.fence).toBe("000000000000002");
      await next.release();
    });
  });
}
