// Who is woken when a slot is free.

import { expect, test } from "vitest";
import { ONLY_WHEN_TOLD, untilWaiting } from "../handover/setup.js";
import { examine } from "./history.js";

const PROCESSES = 3;
const WAITERS = 10;

export function waking(t) {
  test("a freed slot wakes one waiter in each process, and not all of them", async () => {
    const [holder, ...others] = await t.processes(1 + PROCESSES);
    const share = { key: t.key(), concurrency: 2 };
    await holder.take({ name: "first", ...share, ttlMs: 60_000 });
    await holder.take({ name: "second", ...share, ttlMs: 60_000 });
    const waiting = { lanes: WAITERS, rounds: 1, workMs: 5, ...share, ...ONLY_WHEN_TOLD };
    await Promise.all(others.map((other) => other.begin(waiting)));
    await untilWaiting();
    // They use this slot one after the other.
    await holder.release({ name: "first" });
    const done = await Promise.all(others.map((other) => other.finish()));
    const records = done.flatMap(({ records }) => records);
    expect(examine(records)).toEqual({ violations: [], most: 1 });
    expect(records).toHaveLength(PROCESSES * WAITERS);
    // Each asks once or twice before it waits. After each release, one waiter in each process asks again:
    // 90 attempts, and a few more at most. If all waiters asked again, these would be 435.
    const attempts = done.reduce((sum, { attempts }) => sum + attempts, 0);
    const waiters = PROCESSES * WAITERS;
    const ifAllWereWoken = (waiters * (waiters - 1)) / 2;
    expect(attempts).toBeLessThan(2 * waiters + ifAllWereWoken / 2);
  });
}
