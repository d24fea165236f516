// Many processes want one key.

import { expect, test } from "vitest";
import { size } from "../fixtures/size.js";
import { ONLY_WHEN_TOLD, untilWaiting } from "./setup.js";

const PROCESSES = size(12, 40);
const WORK_MS = 5;

export function crowd(t) {
  test(`${PROCESSES} processes, one after the other, and none in vain`, async () => {
    const [holder, ...waiters] = await t.processes(1 + PROCESSES);
    for (const config of [{}, ONLY_WHEN_TOLD]) {
      const key = t.key();
      await holder.take({ key });
      const waiting = waiters.map((waiter) => waiter.wait({ key, workMs: WORK_MS, ...config }));
      await untilWaiting();
      await holder.release({ key });
      const outcomes = await Promise.all(waiting);
      expect(outcomes.filter(({ failed }) => failed)).toEqual([]);
      outcomes.sort((a, b) => (a.ranAt < b.ranAt ? -1 : 1));
      for (const [index, { ranAt, fence }] of outcomes.slice(1).entries()) {
        expect(ranAt >= outcomes[index].leftAt).toBe(true);
        expect(fence > outcomes[index].fence).toBe(true);
      }
    }
  }, 180_000);
}
