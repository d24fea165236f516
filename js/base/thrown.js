// What user code threw while the native side waited for it: kept under a number until the error
// that tells of it has come back.

import { setImmediate } from "node:timers";

/** @type {Map<number, unknown>} */
const things = new Map();
let last = 0;

/**
 * @param {unknown} thrown
 * @returns {number}
 */
export function remember(thrown) {
  last += 1;
  things.set(last, thrown);
  return last;
}

/**
 * @param {number} number
 * @returns {unknown}
 */
export function recall(number) {
  return things.get(number);
}

/**
 * When whoever has just been answered has seen it.
 * @param {number} number
 */
export function forget(number) {
  setImmediate(() => things.delete(number));
}
