// What user code threw while the native side waited for it: kept under a number until the error
// that tells of it has come back.

import { setImmediate } from "node:timers";

/** @type {Map<number, { thing: unknown, isSecret: boolean }>} */
const things = new Map();
let last = 0;

/**
 * @param {unknown} thing
 * @param {boolean} isSecret whether printing it may show a key or a lockId
 * @returns {number}
 */
export function remember(thing, isSecret) {
  last += 1;
  things.set(last, { thing, isSecret });
  return last;
}

/** @param {number} number */
export function recall(number) {
  return things.get(number) ?? { thing: undefined, isSecret: false };
}

/**
 * When whoever has just been answered has seen it.
 * @param {number} number
 */
export function forget(number) {
  setImmediate(() => things.delete(number));
}
