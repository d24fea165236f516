import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { lock } from "../fixtures/api.js";
import { OverlapChecker } from "../fixtures/overlap.js";
import { turn } from "../fixtures/wait.js";

const PATIENT = {
  maxRetries: 1_000_000,
  retryDelayMs: 5,
  backoff: "fixed",
  jitter: "full",
  timeoutMs: 600_000,
};

export function concurrency(t) {
  describe("concurrency", () => {
    test("50 workers on one key with lock(): never two inside, no update lost", async () => {
      const backends = [await t.backend()];
      if (t.shared) backends.push(await t.another());
      const key = t.key();
      const checker = new OverlapChecker();
      let counter = 0;
      const worker = async (_, index) => {
        for (let round = 0; round < 4; round++) {
          await lock(
            backends[index % backends.length],
            async ({ fence }) => {
              const leave = checker.enter(key, fence);
              const read = counter;
              await turn();
              counter = read + 1;
              leave();
            },
            { key, ttlMs: 120_000, acquisition: PATIENT },
          );
        }
      };
      await Promise.all(Array.from({ length: 50 }, worker));
      expect(checker.violations).toEqual([]);
      expect(checker.sections).toBe(200);
      expect(counter).toBe(200);
      expect(await backends[0].isLocked({ key })).toBe(false);
    }, 120_000);

    test("50 workers on one key with acquire and release", async () => {
      const backend = await t.backend();
      const key = t.key();
      const checker = new OverlapChecker();
      const worker = async () => {
        for (let done = 0; done < 2;) {
          const held = await backend.acquire({ key, ttlMs: 120_000 });
          if (!held.ok) {
            await sleep(Math.random() * 20);
            continue;
          }
          const leave = checker.enter(key, held.fence);
          await turn();
          leave();
          expect((await held.release()).ok).toBe(true);
          done += 1;
        }
      };
      await Promise.all(Array.from({ length: 50 }, worker));
      expect(checker.violations).toEqual([]);
      expect(checker.sections).toBe(100);
    }, 120_000);

    test("many keys at once", async () => {
      const backend = await t.backend();
      const keys = Array.from({ length: 10 }, () => t.key());
      const checker = new OverlapChecker();
      const worker = (_, index) =>
        lock(
          backend,
          async ({ fence }) => {
            const leave = checker.enter(keys[index % 10], fence);
            await turn();
            leave();
          },
          { key: keys[index % 10], ttlMs: 120_000, acquisition: PATIENT },
        );
      await Promise.all(Array.from({ length: 100 }, worker));
      expect(checker.violations).toEqual([]);
      expect(checker.sections).toBe(100);
    }, 120_000);
  });
}
