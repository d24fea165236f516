// Two things are not promised, and what comes of them is `excused`, and counted:
//
//   mayLoseWrites  Redis replicates asynchronously, so a failover may forget the last locks, releases
//                  and fences
//   mayShareLocks  to a process whose clock is far ahead, a lock of another has run out; its fence is
//                  higher all the same

import { pausedBetween } from "./model.mjs";

/** How long before and after such a fault there may be traces of it. */
const LAG_MS = 1_500;

/** Whether a fault with such an effect lies between two times, or near them. */
export function excuser({ faults }, ...effects) {
  const relevant = faults.filter((fault) => effects.some((effect) => fault[effect]));
  return (from, to) =>
    relevant.some((fault) => from <= fault.to + LAG_MS && to >= fault.from - LAG_MS);
}

/** How long something was not promised, in seconds. */
export function unpromisedSeconds({ faults }) {
  const relevant = faults
    .filter(({ mayLoseWrites, mayShareLocks }) => mayLoseWrites || mayShareLocks)
    .map(({ from, to }) => ({ from: from - LAG_MS, to: to + LAG_MS }));
  return pausedBetween(relevant, -Infinity, Infinity) / 1000;
}
