// A lock is released or taken away, and the next process runs.

import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { forceRelease } from "../fixtures/api.js";
import { now, toMs } from "./process.js";
import { HOLD_MS } from "./setup.js";

/**
 * The aim is a few ms; without a notification it would be several hundred. What a busy machine adds
 * only ever makes it longer, so that one of several times is enough.
 */
export const SOON_MS = 100;
const TIMES = 5;

/**
 * How long a key is free until a process that waits for it runs, in ms: the best of several times.
 * `take(key)` locks it and returns what frees it and tells when that began.
 */
export async function handOver(t, take, config = {}) {
  const waiter = await t.process();
  let best = Infinity;
  for (let time = 0; time < TIMES && best >= SOON_MS; time++) {
    const key = t.key();
    const free = await take(key);
    const waiting = waiter.wait({ key, ...config });
    await sleep(HOLD_MS);
    const freeAt = await free();
    const { ranAt, failed } = await waiting;
    expect(failed).toBe(undefined);
    best = Math.min(best, toMs(ranAt - freeAt));
  }
  return best;
}

export function releases(t) {
  describe("with default settings, after a hold of 1.5 s", () => {
    const takeElsewhere = async () => {
      const holder = await t.process();
      return async (key) => {
        await holder.take({ key });
        return () => holder.release({ key });
      };
    };

    test.each(["lock", "hold", "lead"])("a release reaches a %s()", async (form) => {
      expect(await handOver(t, await takeElsewhere(), { form })).toBeLessThan(SOON_MS);
    });

    test("a forceRelease by a third process wakes a waiter too", async () => {
      const take = await takeElsewhere();
      const takeForAWhile = async (key) => {
        await take(key);
        return async () => {
          const at = now();
          expect(await forceRelease(t.backend, { key })).toEqual({ ok: true });
          return at;
        };
      };
      expect(await handOver(t, takeForAWhile)).toBeLessThan(SOON_MS);
    });
  });
}
