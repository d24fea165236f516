// Abort signals: what counts as one, and the errors they lead to.

import { invalidArgument, LockError } from "./errors.js";

/** @import { LockErrorContext } from "../index.js" */

/**
 * Throws when `signal` is not an AbortSignal or is already aborted. Signals of other realms and
 * polyfills count: only their shape is looked at.
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
 * Whether the signal is aborted; throws InvalidArgument when it is no signal.
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
 * For custom backends: throws LockError("Aborted") when the signal, if any, is aborted.
 * @param {AbortSignal | undefined} [signal]
 */
export function checkAborted(signal) {
  if (signal !== undefined) checkSignal(signal);
}
