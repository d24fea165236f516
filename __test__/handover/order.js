// Several waiters of one process: their order, and what happens when one of them gives up.

import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { ONLY_WHEN_TOLD, untilWaiting } from "./setup.js";

const ROUNDS = 60;
const LANES = 4;

export function order(t) {
  test.each([
    ["one after the other", 20],
    ["at once", 0],
  ])("waiters of a process that came %s are served in that order", async (_, apartMs) => {
    const [holder, waiter] = await t.processes(2);
    const key = t.key();
    await holder.take({ key });
    const ask = (name) => waiter.wait({ key, name, workMs: 2, ...ONLY_WHEN_TOLD });
    const names = Array.from({ length: 10 }, (_, index) => `waiter ${index}`);
    const waiting = [];
    for (const name of names) {
      waiting.push(ask(name));
      if (apartMs) await sleep(apartMs);
    }
    await untilWaiting();
    await holder.release({ key });
    // One that comes when it is handed over is behind them.
    names.push("newcomer");
    waiting.push(ask("newcomer"));

    const outcomes = await Promise.all(waiting);
    expect(outcomes.filter(({ failed }) => failed)).toEqual([]);
    const ran = outcomes.map(({ ranAt }, index) => ({ ranAt, name: names[index] }));
    expect(ran.sort((a, b) => (a.ranAt < b.ranAt ? -1 : 1)).map(({ name }) => name)).toEqual(names);
  });

  test("a waiter that gives up when it is woken wakes the next one", async () => {
    const [holder, first, second] = await t.processes(3);
    const spread = { early: 0, late: 0 };
    const giveUp = async (round) => {
      const key = t.key();
      await holder.take({ key });
      const leaving = first.wait({ key, name: `leaving ${round}`, ...ONLY_WHEN_TOLD });
      const staying = [first, second].map((one) =>
        one.wait({ key, name: `staying ${round}`, delayMs: 1, ...ONLY_WHEN_TOLD }),
      );
      const delayMs = 20;
      const releasing = holder.release({ key, delayMs });
      await first.abort({ name: `leaving ${round}`, delayMs: delayMs - 1 + (round % 4) });
      await releasing;
      const { failed } = await leaving;
      spread[failed ? "early" : "late"] += 1;
      expect([undefined, "Aborted"]).toContain(failed);
      for (const outcome of await Promise.all(staying)) expect(outcome.failed).toBe(undefined);
    };
    let round = 0;
    const lane = async () => {
      while (round < ROUNDS) await giveUp(round++);
    };
    await Promise.all(Array.from({ length: LANES }, lane));
    expect(spread.early).toBeGreaterThan(0);
  }, 120_000);
}
