// Three things are not promised, and what comes of them is `excused`, and counted:
//
//   mayLoseWrites      Redis replicates asynchronously, so a failover may forget the last locks,
//                      releases and fences
//   mayShareLocks      to a process whose clock is far ahead, a lock of another has run out; its fence
//                      is higher all the same
//   mayForgetReleases  PostgreSQL answers a release before it is on the disk, so a crash may take it
//                      back, and the lock lasts until its TTL

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

/** How long PostgreSQL may keep what it has not been asked to write at once. */
const UNWRITTEN_MS = 2_000;

/**
 * Whether a lock that is left on `key` can be one whose release a crash took back: it was released, or
 * undone, just before, and nobody had the key afterwards.
 */
export function isTakenBack(key, { faults, gave, quits }) {
  const ends = [...gave, ...quits].filter(({ k }) => k === key);
  return faults.some(
    ({ mayForgetReleases, from, to }) =>
      mayForgetReleases &&
      ends.some(({ t }) => t >= from - UNWRITTEN_MS && t <= to) &&
      !gave.some(({ k, t }) => k === key && t > to),
  );
}
