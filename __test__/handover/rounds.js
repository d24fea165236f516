// Releases and waits at random times: no notification is missed.

import { expect, test } from "vitest";
import { toMs } from "./process.js";
import { ONLY_WHEN_TOLD } from "./setup.js";

const LANES = 8;
const FRESH = 0.02;
/** A waiter that is not notified waits until it gives up, for much longer than this. */
const BOUND_MS = 2_000;

/** The time from before the attempt until after the watch has started. */
const someTime = () => (Math.random() < 0.2 ? 0 : Math.random() * 15);

async function round([holder, ...waiters], key) {
  await holder.take({ key });
  const waiting = waiters.map((waiter) =>
    waiter.wait({ key, fresh: Math.random() < FRESH, delayMs: someTime(), ...ONLY_WHEN_TOLD }),
  );
  let freeAt = await holder.release({ key, delayMs: someTime() });
  const outcomes = await Promise.all(waiting);
  const failed = outcomes.find(({ failed }) => failed);
  if (failed) return Infinity;
  let longest = 0;
  for (const { askedAt, ranAt, leftAt } of outcomes.sort((a, b) => (a.ranAt < b.ranAt ? -1 : 1))) {
    const since = askedAt > freeAt ? askedAt : freeAt;
    longest = Math.max(longest, toMs(ranAt - since));
    freeAt = leftAt;
  }
  return longest;
}

export function rounds(t) {
  test(`${t.rounds} releases against waits`, async () => {
    const processes = await t.processes(3);
    const delays = [];
    let left = t.rounds;
    const lane = async () => {
      const key = t.key();
      while (left-- > 0) delays.push(await round(processes, key));
    };
    await Promise.all(Array.from({ length: LANES }, lane));
    const missed = delays.filter((delay) => delay > BOUND_MS);
    expect({ rounds: delays.length, missed }).toEqual({ rounds: t.rounds, missed: [] });
  }, 600_000);
}
