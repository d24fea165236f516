// Keeps values that user code threw while the native side waited for it. Each value has a number, and is
// kept until the error that stands for it has reached its caller.

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
 * Forgets the value once the caller that was just answered has seen it.
 * @param {number} number
 */
export function forget(number) {
  setImmediate(() => things.delete(number));
}
