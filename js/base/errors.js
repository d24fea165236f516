// The one error class, and the rules for making errors out of what went wrong.

import { recall } from "./thrown.js";

/** @import { LockErrorCode, LockErrorContext } from "../../index.js" */

const HIDDEN = { enumerable: false, writable: true, configurable: true };

export class LockError extends Error {
  /**
   * @param {LockErrorCode} code
   * @param {string} [message]
   * @param {LockErrorContext} [context]
   */
  constructor(code, message, context) {
    super(message ?? code);
    /** @type {LockErrorCode} */
    this.code = code;
    /** @type {LockErrorContext | undefined} */
    this.context = context;
    // Printing the error must not print a key or a lockId.
    Object.defineProperty(this, "context", HIDDEN);
    if (context?.cause !== undefined) {
      /** @type {unknown} */
      this.cause = context.cause;
      Object.defineProperty(this, "cause", HIDDEN);
    }
  }
}

Object.defineProperty(LockError.prototype, "name", { value: "LockError", ...HIDDEN });

/**
 * @param {string} message
 * @param {LockErrorContext} [context]
 */
export function invalidArgument(message, context) {
  return new LockError("InvalidArgument", message, context);
}

/**
 * For an options argument whose fields could not be read: null, or a getter that threw.
 * @param {string} what the call, such as `acquire({ key, ttlMs })`
 * @param {unknown} opts
 * @param {unknown} cause
 */
export function unreadableOptions(what, opts, cause) {
  if (opts === null || opts === undefined) {
    return invalidArgument(`${what} needs an options object`);
  }
  return invalidArgument(`The options of ${what} could not be read: see the cause`, { cause });
}

export const KEY_NOT_STRING = "Key must be a string";
export const BAD_LOCK_ID =
  "Invalid lockId format: expected the 22 base64url characters that acquire() returned";
export const BAD_TTL = "ttlMs must be a positive integer (milliseconds)";

/**
 * The error in a reply `E{json}` of the native side; any other reply was not to be expected.
 * @param {string} reply
 * @param {LockErrorContext} [context]
 */
export function replyError(reply, context) {
  if (!reply.startsWith("E")) {
    return new LockError("Internal", "The native side gave an unexpected answer", context);
  }
  return describedError(JSON.parse(reply.slice(1)), context);
}

/**
 * Errors that tell of something else that user code threw.
 * @type {WeakSet<object>}
 */
const standIns = new WeakSet();

/**
 * What user code threw, when the error tells of that; else the error.
 * @param {any} error
 * @returns {unknown}
 */
export function thrownBehind(error) {
  return standIns.has(error) ? error.cause : error;
}

/**
 * @param {any} description
 * @param {LockErrorContext} [context]
 * @returns {LockError}
 */
function describedError({ code, message, cause, thrown, details }, context) {
  /** @type {LockErrorContext} */
  const full = { ...context, ...details };
  if (thrown !== undefined) {
    const { thing, isSecret } = recall(thrown);
    // A LockError of user code reaches its caller as it is.
    if (thing instanceof LockError) return thing;
    if (isSecret) {
      const error = new LockError(code, message, full);
      // Only there, where printing the error does not show it.
      full.cause = thing;
      return error;
    }
    full.cause = thing;
  } else if (cause !== undefined) {
    full.cause = typeof cause === "string" ? new Error(cause) : describedError(cause);
  }
  const error = new LockError(code, message, full);
  if (thrown !== undefined) standIns.add(error);
  return error;
}

/**
 * The value of a synchronous reply `1value`; throws the error of `E{json}`.
 * @param {string} reply
 * @returns {string}
 */
export function unwrap(reply) {
  if (reply.startsWith("E")) throw replyError(reply);
  return reply.slice(1);
}

/**
 * A thrown value as an Error: callbacks promise their users an Error. What was thrown is its
 * `originalError`, and its `cause`.
 * @param {unknown} thrown
 * @returns {Error}
 */
export function toError(thrown) {
  if (thrown instanceof Error) return thrown;
  const error = new Error(textOf(thrown), { cause: thrown });
  return Object.defineProperty(error, "originalError", { value: thrown, ...HIDDEN });
}

/** @param {unknown} thrown */
function textOf(thrown) {
  try {
    return String(thrown);
  } catch {
    return "A value that cannot be shown was thrown";
  }
}

/**
 * A LockError of another copy of this package: a program may have two.
 * @param {unknown} thrown
 * @returns {thrown is LockError}
 */
function isForeignLockError(thrown) {
  return (
    thrown instanceof Error &&
    thrown.name === "LockError" &&
    typeof (/** @type {{ code?: unknown }} */ (thrown).code) === "string"
  );
}

/**
 * A failure of a backend that is not ours, as a LockError.
 * @param {string} operation
 * @param {unknown} thrown
 * @param {LockErrorContext} context
 */
export function backendError(operation, thrown, context) {
  if (thrown instanceof LockError) return thrown;
  if (isForeignLockError(thrown)) {
    return new LockError(thrown.code, thrown.message, { ...thrown.context, cause: thrown });
  }
  return new LockError("Internal", `The backend's ${operation}() failed: see the cause`, {
    ...context,
    cause: thrown,
  });
}

/**
 * Throws unless `backend` has these operations.
 * @param {any} backend
 * @param {string[]} operations
 */
export function checkBackend(backend, operations) {
  /** @type {unknown} */
  let cause;
  try {
    if (operations.every((name) => typeof backend[name] === "function")) return;
  } catch (thrown) {
    if (backend !== null && backend !== undefined) cause = thrown;
  }
  throw invalidArgument(
    `The backend must be a LockBackend: an object with ${operations.join(", ")}`,
    cause === undefined ? undefined : { cause },
  );
}
