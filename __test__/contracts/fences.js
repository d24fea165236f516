import { describe, expect, test } from "vitest";
import { untilFree } from "../fixtures/wait.js";

export function fences(t) {
  describe.concurrent("fences", () => {
    test("fences have 15 digits, start at 1, and grow by one with each lock of a key", async () => {
      const backend = await t.backend();
      const key = t.key();
      const seen = [];
      for (let round = 0; round < 12; round++) {
        const lock = await backend.acquire({ key, ttlMs: 60_000 });
        seen.push(lock.fence);
        await lock.release();
      }
      expect(seen).toEqual(seen.map((_, index) => String(index + 1).padStart(15, "0")));
      expect(seen[0]).toBe("000000000000001");
      expect([...seen].sort()).toEqual(seen);
    });

    test("each key has its own counter", async () => {
      const backend = await t.backend();
      for (const key of [t.key(), t.key()]) {
        const lock = await backend.acquire({ key, ttlMs: 60_000 });
        expect(lock.fence).toBe("000000000000001");
        await lock.release();
      }
    });

    test("fences survive the expiry of a lock", async () => {
      const backend = await t.backend();
      const key = t.key();
      expect((await backend.acquire({ key, ttlMs: 1 })).fence).toBe("000000000000001");
      await untilFree(backend, key);
      const next = await backend.acquire({ key, ttlMs: 60_000 });
      expect(next.fence).toBe("000000000000002");
      await next.release();
    });

    test("a refused acquire, an extension and a lookup use up no fence", async () => {
      const backend = await t.backend();
      const key = t.key();
      const first = await backend.acquire({ key, ttlMs: 60_000 });
      await backend.acquire({ key, ttlMs: 60_000 });
      await first.extend(60_000);
      expect((await backend.lookup({ key })).fence).toBe(first.fence);
      await first.release();
      const second = await backend.acquire({ key, ttlMs: 60_000 });
      expect(second.fence).toBe("000000000000002");
      await second.release();
    });

    if (t.shared) {
      test("fences continue on a new backend with the same data", async () => {
        const key = t.key();
        const before = await (await t.another()).acquire({ key, ttlMs: 60_000 });
        await before.release();
        const after = await (await t.another()).acquire({ key, ttlMs: 60_000 });
        expect(after.fence).toBe("000000000000002");
        await after.release();
      });
    }
  });
}
