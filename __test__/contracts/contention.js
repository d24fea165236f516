import { describe, expect, test } from "vitest";

export function contention(t) {
  describe("contention and ownership", () => {
    test("two namespaces do not see each other", async () => {
      const one = await t.isolated();
      const two = await t.isolated();
      const key = t.key();
      const first = await one.acquire({ key, ttlMs: 60_000 });
      const second = await two.acquire({ key, ttlMs: 60_000 });
      expect(second.ok).toBe(true);
      expect((await two.release({ lockId: first.lockId })).ok).toBe(false);
      expect(await one.isLocked({ key })).toBe(true);
      expect(second.fence).toBe(first.fence);
    });
  });
}
