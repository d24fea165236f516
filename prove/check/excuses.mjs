// Three things are not guaranteed. Violations that follow from them are counted as `excused`:
//
//   mayLoseWrites      Redis replicates asynchronously, so a failover may lose the last locks,
//                      releases and fences
//   mayShareLocks      to a process whose clock is far ahead, the locks of others have expired, so it
//                      may acquire one that is in use; its fence is higher all the same
//   mayForgetReleases  PostgreSQL answers a release before it is on the disk, so a crash may lose it,
//                      and the lock lasts until its TTL

import { pausedBetween } from "./model.mjs";

/** How long before and after such a fault its effects may appear. */
const LAG_MS = 1_500;

/** Whether a fault with such an effect lies between two times, or near them. */
export function excuser({ faults }, ...effects) {
  const relevant = faults.filter((fault) => effects.some((effect) => fault[effect]));
  return (from, to) =>
    relevant.some((fault) => from <= fault.to + LAG_MS && to >= fault.from - LAG_MS);
}

/** Returns for how long a guarantee was suspended, in seconds. */
export function unpromisedSeconds({ faults }) {
  const relevant = faults
    .filter(({ mayLoseWrites, mayShareLocks }) => mayLoseWrites || mayShareLocks)
    .map(({ from, to }) => ({ from: from - LAG_MS, to: to + LAG_MS }));
  return pausedBetween(relevant, -Infinity, Infinity) / 1000;
}

/** How long PostgreSQL may delay a write that need not be on the disk at once. */
const UNWRITTEN_MS = 2_000;

/**
 * Whether a crash can have lost the release of the lock that is left on `key`: the lock was released or
 * undone just before the crash, and nobody acquired the key afterwards.
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
