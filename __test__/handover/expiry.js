// A holder that died: its lock is taken the moment it may be.

import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { ONLY_WHEN_TOLD } from "./setup.js";

const WITHIN_MS = 300;
// The clock of the server and ours may be read in another order than things happened.
const GRAIN_MS = 20;

export function expiry(t) {
  test.each([
    ["with default settings", {}],
    ["who is only told", ONLY_WHEN_TOLD],
  ])("the lock of a killed process passes on in time to one %s", async (_, config) => {
    const [holder, waiter] = await t.processes(2);
    const key = t.key();
    await holder.take({ key, ttlMs: 1_500, autoExtend: true });
    const waiting = waiter.wait({ key, ...config });
    await sleep(1_200);
    await holder.kill();
    const { expiresAtMs } = await t.backend.lookup({ key });
    const { ranAtMs, failed } = await waiting;
    expect(failed).toBe(undefined);
    const late = ranAtMs - (expiresAtMs + t.toleranceMs);
    expect(late).toBeGreaterThan(-GRAIN_MS);
    expect(late).toBeLessThan(WITHIN_MS);
  });
}
