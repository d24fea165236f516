// The cost of waiters while the lock stays held and its holder extends it.

import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { ONLY_WHEN_TOLD, untilWaiting } from "./setup.js";

const WAITERS = 4;
const WATCHED_MS = 3_000;
// A storm has hundreds. On a busy machine the first retries of the back-off are counted, too.
const COMMANDS_PER_SECOND = 10;
// The aim is 1 % of a core.
const CPU_SHARE = 0.05;

export function quiet(t) {
  test.each([
    // But for the wall, which is soon after the end of this.
    ["with default settings", { acquisition: { timeoutMs: 60_000 } }],
    ["who are only told", ONLY_WHEN_TOLD],
  ])("heartbeats cause no storm of those %s", async (_, config) => {
    const [holder, ...waiters] = await t.processes(1 + WAITERS);
    const key = t.key();
    await holder.take({ key, ttlMs: 2_000, autoExtend: true });
    const waiting = waiters.map((waiter) => waiter.wait({ key, ...config }));
    await untilWaiting();
    const cpu = () => Promise.all(waiters.map((waiter) => waiter.cpu()));
    const [before] = await Promise.all([cpu(), t.store.commands?.()]);
    await sleep(WATCHED_MS);
    const [after, commands = 0] = await Promise.all([cpu(), t.store.commands?.()]);

    expect(commands / WAITERS / (WATCHED_MS / 1000)).toBeLessThan(COMMANDS_PER_SECOND);
    for (const [index, used] of after.entries()) {
      expect((used - before[index]) / 1000 / WATCHED_MS).toBeLessThan(CPU_SHARE);
    }
    await holder.release({ key });
    const outcomes = await Promise.all(waiting);
    expect(outcomes.filter(({ failed }) => failed)).toEqual([]);
  });
}
