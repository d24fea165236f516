// The environment of the command that runs while the locks are held.

/** @import { HeldLock, HeldLocks } from "../../index.js" */

/**
 * What the command can be told about one of its locks.
 * @typedef {object} Lock
 * @property {string} key
 * @property {string} lockId
 * @property {string} fence
 * @property {number | undefined} slot if its holders share the key
 */

/** The variables that this command line sets, for one key and for each of several. */
const OURS = /^SYNCGUARD_(KEY|LOCK_ID|FENCE|SLOT)(_\d+)?$/;

/**
 * Returns the locks in the order of these keys.
 * @param {HeldLock | HeldLocks} held
 * @param {string[]} keys
 * @returns {Lock[]}
 */
export function locksOf(held, keys) {
  if ("lockId" in held) {
    const { lockId, fence, slot } = held;
    return [{ key: keys[0], lockId, fence, slot }];
  }
  const { lockIds, fences, slots } = held;
  return keys.map((key) => ({
    key,
    lockId: lockIds[key],
    fence: fences[key],
    slot: slots?.[key],
  }));
}

/**
 * Returns the variables that describe the locks. If there are several, the names end in their numbers,
 * from 1.
 * @param {Lock[]} locks
 * @returns {Record<string, string>}
 */
export function variablesOf(locks) {
  const described = locks.map(({ key, lockId, fence, slot }, index) => {
    const end = endOfName(locks, index);
    return {
      [`SYNCGUARD_KEY${end}`]: key,
      [`SYNCGUARD_LOCK_ID${end}`]: lockId,
      [`SYNCGUARD_FENCE${end}`]: fence,
      ...(slot !== undefined && { [`SYNCGUARD_SLOT${end}`]: String(slot) }),
    };
  });
  return Object.assign({}, ...described);
}

/**
 * Returns a variable, as `NAME=value`, that only the processes of the command have.
 * @param {Lock[]} locks
 */
export function markOf(locks) {
  return `SYNCGUARD_LOCK_ID${endOfName(locks, 0)}=${locks[0].lockId}`;
}

/**
 * @param {Lock[]} locks
 * @param {number} index
 */
function endOfName(locks, index) {
  return locks.length === 1 ? "" : `_${index + 1}`;
}

/** Returns our own environment without the locks of a `syncguard run` around us, which are other ones. */
export function inherited() {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !OURS.test(name)));
}
