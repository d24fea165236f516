// Abort signals: checks, listeners, and the errors of aborted operations.

import { invalidArgument, LockError } from "./errors.js";

/** @import { LockErrorContext } from "../../index.js" */

/**
 * Throws if `signal` is not an AbortSignal or is already aborted. Signals of other realms and polyfills are
 * accepted, because only their shape is checked.
 * @param {unknown} signal
 * @param {LockErrorContext} [context]
 * @returns {asserts signal is AbortSignal}
 */
export function checkSignal(signal, context) {
  if (isAborted(signal)) {
    throw aborted("Operation aborted by signal", /** @type {AbortSignal} */ (signal), context);
  }
}

/**
 * Returns whether the signal is aborted. Throws InvalidArgument if it is not a signal.
 * @param {unknown} signal
 * @returns {boolean}
 */
export function isAborted(signal) {
  /** @type {unknown} */
  let cause;
  try {
    if (typeof signal === "object" && signal !== null) {
      const candidate = /** @type {Record<string, unknown>} */ (signal);
      const state = candidate.aborted;
      if (
        typeof state === "boolean" &&
        typeof candidate.addEventListener === "function" &&
        typeof candidate.removeEventListener === "function"
      ) {
        return state;
      }
    }
  } catch (thrown) {
    cause = thrown;
  }
  throw invalidArgument(
    "signal must be an AbortSignal",
    cause === undefined ? undefined : { cause },
  );
}

/**
 * @param {string} message
 * @param {AbortSignal} signal
 * @param {LockErrorContext} [context]
 */
export function aborted(message, signal, context) {
  return new LockError("Aborted", message, { ...context, cause: reasonOf(signal) });
}

/** @param {AbortSignal} signal */
export function reasonOf(signal) {
  try {
    return signal.reason;
  } catch (thrown) {
    return thrown;
  }
}

/**
 * For custom backends: throws LockError("Aborted") if there is a signal and it is aborted.
 * @param {AbortSignal | undefined} [signal]
 */
export function checkAborted(signal) {
  if (signal !== undefined) checkSignal(signal);
}

/**
 * One listener for each signal, however many operations share it. Node.js warns of a leak from the eleventh
 * listener on, and a program may use one signal for everything.
 * @type {WeakMap<AbortSignal, { callbacks: Set<() => void>, listener: () => void }>}
 */
const listened = new WeakMap();

/**
 * @param {AbortSignal} signal
 * @param {() => void} callback must not throw
 */
export function onAbort(signal, callback) {
  let entry = listened.get(signal);
  if (entry === undefined) {
    /** @type {Set<() => void>} */
    const callbacks = new Set();
    entry = { callbacks, listener: () => [...callbacks].forEach((call) => call()) };
    try {
      signal.addEventListener("abort", entry.listener);
    } catch (cause) {
      throw invalidArgument("signal must be an AbortSignal", { cause });
    }
    listened.set(signal, entry);
  }
  entry.callbacks.add(callback);
}

/**
 * Never throws, because it runs before a release.
 * @param {AbortSignal} signal
 * @param {() => void} callback
 */
export function offAbort(signal, callback) {
  const entry = listened.get(signal);
  if (entry === undefined) return;
  entry.callbacks.delete(callback);
  if (entry.callbacks.size === 0) {
    listened.delete(signal);
    try {
      signal.removeEventListener("abort", entry.listener);
    } catch {
      // A polyfill failed. Its listener no longer calls anything.
    }
  }
}
