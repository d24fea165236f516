// A lock is given back or taken away, and the next process runs.

import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { forceRelease } from "../fixtures/api.js";
import { now, toMs } from "./process.js";
import { HOLD_MS } from "./setup.js";

/** The aim is a few ms; without a notification it would be several hundred. */
export const SOON_MS = 100;
const TIMES = 3;

const median = (values) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)];

/**
 * How long a key is free until a process that waits for it runs, in ms.
 * `take(key)` locks it and returns what frees it and tells when that began.
 */
export async function handOver(t, take, config = {}) {
  const waiter = await t.process();
  const delays = [];
  for (let time = 0; time < TIMES; time++) {
    const key = t.key();
    const free = await take(key);
    const waiting = waiter.wait({ key, ...config });
    await sleep(HOLD_MS);
    const freeAt = await free();
    const { ranAt, failed } = await waiting;
    expect(failed).toBe(undefined);
    delays.push(toMs(ranAt - freeAt));
  }
  return median(delays);
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

    test("so does a forceRelease of a third process", async () => {
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
