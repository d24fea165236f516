// A lock is given back or taken away, and the next process runs.

import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { forceRelease } from "../fixtures/api.js";
import { toMs } from "./process.js";
import { HOLD_MS } from "./setup.js";

/** The aim is a few ms; without a notification it would be several hundred. */
export const SOON_MS = 100;
const TIMES = 3;

const median = (values) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)];

/** How long the keys are free until waiters with this configuration run: one after the other. */
async function handOver(t, free, config = {}) {
  const [holder, waiter] = await t.processes(2);
  const delays = [];
  for (let time = 0; time < TIMES; time++) {
    const key = t.key();
    await holder.take({ key });
    const waiting = waiter.wait({ key, ...config });
    await sleep(HOLD_MS);
    const freeAt = await free(holder, key);
    const { ranAt, failed } = await waiting;
    expect(failed).toBe(undefined);
    delays.push(toMs(ranAt - freeAt));
  }
  return median(delays);
}

const release = (holder, key) => holder.release({ key });

export function releases(t) {
  describe("with default settings, after a hold of 1.5 s", () => {
    test.each(["lock", "hold", "lead"])("a release reaches a %s()", async (form) => {
      expect(await handOver(t, release, { form })).toBeLessThan(SOON_MS);
    });

    test("so does a forceRelease of a third process", async () => {
      const takeAway = async (_, key) => {
        const at = process.hrtime.bigint();
        expect(await forceRelease(t.backend, { key })).toEqual({ ok: true });
        return at;
      };
      expect(await handOver(t, takeAway)).toBeLessThan(SOON_MS);
    });
  });
}
