// A holder died: the next waiter acquires its lock as soon as it has expired.

import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { ONLY_WHEN_TOLD } from "./setup.js";

const WITHIN_MS = 300;
const TIMES = 4;
// The server's clock and ours may be read in a different order than the events happened.
const GRAIN_MS = 20;

export function expiry(t) {
  test.each([
    // But for the wall, which a busy machine may reach before the lock ends.
    ["with default settings", { acquisition: { timeoutMs: 60_000 } }],
    ["that is only notified", ONLY_WHEN_TOLD],
  ])("the lock of a killed process goes to a waiter %s in time", async (_, config) => {
    // What a busy machine adds only ever makes it later: one of several times is enough.
    let late = Infinity;
    for (let time = 0; time < TIMES && late >= WITHIN_MS; time++) {
      const [holder, waiter] = await t.processes(2);
      const key = t.key();
      await holder.take({ key, ttlMs: 1_500, autoExtend: true });
      const waiting = waiter.wait({ key, ...config });
      await sleep(1_200);
      await holder.kill();
      const { expiresAtMs } = await t.backend.lookup({ key });
      const { ranAtMs, failed } = await waiting;
      expect(failed).toBe(undefined);
      late = ranAtMs - (expiresAtMs + t.toleranceMs);
      expect(late).toBeGreaterThan(-GRAIN_MS);
    }
    expect(late).toBeLessThan(WITHIN_MS);
  });
}
