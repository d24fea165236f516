// Runs algorithms when a signal is aborted.

import { addAbortListener } from "node:events";

/**
 * One listener for each signal, however many requests share it: Node.js warns of a leak from the
 * eleventh listener on.
 * @type {WeakMap<AbortSignal, { algorithms: Set<() => void>, listener: Disposable }>}
 */
const listened = new WeakMap();

/**
 * Runs the algorithm when the signal is aborted, even if another listener stops the event.
 * @param {AbortSignal} signal
 * @param {() => void} algorithm must not throw
 */
export function addAlgorithm(signal, algorithm) {
  let entry = listened.get(signal);
  if (entry === undefined) {
    /** @type {Set<() => void>} */
    const algorithms = new Set();
    const run = () => [...algorithms].forEach((each) => each());
    entry = { algorithms, listener: addAbortListener(signal, run) };
    listened.set(signal, entry);
  }
  entry.algorithms.add(algorithm);
}

/**
 * @param {AbortSignal} signal
 * @param {() => void} algorithm
 */
export function removeAlgorithm(signal, algorithm) {
  const entry = listened.get(signal);
  if (entry === undefined) return;
  entry.algorithms.delete(algorithm);
  if (entry.algorithms.size > 0) return;
  listened.delete(signal);
  entry.listener[Symbol.dispose]();
}
