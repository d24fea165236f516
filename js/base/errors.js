// The error class of this package, and the conversions of other errors to it.

import { isBackend, recognize } from "./recognize.js";
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
 * Returns the error for an options argument that cannot be read: null, or a getter that throws.
 * @param {string} what the call, such as `acquire({ key, ttlMs })`
 * @param {unknown} opts
 * @param {unknown} cause
 */
export function unreadableOptions(what, opts, cause) {
  if (opts === null || opts === undefined) {
    return invalidArgument(`${what} got ${opts} in place of its options: pass an object`);
  }
  return invalidArgument(
    `The options of ${what} could not be read, because a getter threw an error, which is the cause. ` +
      "Pass plain values",
    { cause },
  );
}

export const KEY_NOT_STRING = "Key must be a string";
export const BAD_LOCK_ID =
  "Invalid lockId format: expected the 22 base64url characters that acquire() returned";
export const BAD_TTL = "ttlMs must be a positive integer (milliseconds)";
export const RELEASED =
  "The lock is no longer held: it was released. Acquire it again if you still need it";

/**
 * Returns the error of a native reply `E{json}`. Any other reply is unexpected, which is an error too.
 * @param {string} reply
 * @param {LockErrorContext} [context]
 */
export function replyError(reply, context) {
  if (!reply.startsWith("E")) {
    return new LockError(
      "Internal",
      "The native addon returned a reply of an unknown form. Install syncguard again",
      context,
    );
  }
  return describedError(JSON.parse(reply.slice(1)), context);
}

/**
 * Errors that stand for a value that user code threw.
 * @type {WeakSet<object>}
 */
const standIns = new WeakSet();

/**
 * Returns the value that user code threw if the error stands for one. Otherwise returns the error itself.
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
    // A LockError that user code threw reaches the caller unchanged.
    if (thing instanceof LockError) return thing;
    if (isSecret) {
      const error = new LockError(code, message, full);
      // The cause is only in the context, because printing the error does not show that.
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
 * Returns the value of a synchronous reply `1value`, or throws the error of `E{json}`.
 * @param {string} reply
 * @returns {string}
 */
export function unwrap(reply) {
  if (reply.startsWith("E")) throw replyError(reply);
  return reply.slice(1);
}

/**
 * Converts a thrown value to an Error, because callbacks promise one. The value itself becomes its
 * `originalError` and `cause`.
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
    return "A value was thrown that cannot be converted to text";
  }
}

/**
 * Returns whether this is a LockError of another copy of this package. A program can load two copies.
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
 * Converts the failure of a custom backend to a LockError.
 * @param {string} operation
 * @param {unknown} thrown
 * @param {LockErrorContext} context
 */
export function backendError(operation, thrown, context) {
  if (thrown instanceof LockError) return thrown;
  if (isForeignLockError(thrown)) {
    return new LockError(thrown.code, thrown.message, { ...thrown.context, cause: thrown });
  }
  return new LockError(
    "Internal",
    `The backend's ${operation}() failed: it threw a value that is no LockError, which is the cause`,
    { ...context, cause: thrown },
  );
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
  const missing = isBackend(backend)
    ? `. This one has no ${operations.filter((name) => typeof backend[name] !== "function").join(", ")}`
    : explain(backend);
  throw invalidArgument(
    `The backend must be a LockBackend: an object with ${operations.join(", ")}${missing}`,
    cause === undefined ? undefined : { cause },
  );
}

/**
 * Returns the end of a message: what was passed instead, and what to do about it. Empty if the value
 * resembles nothing that people pass by mistake.
 * @param {unknown} value
 */
export function explain(value) {
  const recognized = recognize(value);
  return recognized === undefined ? "" : `. This is ${recognized.what}: ${recognized.remedy}`;
}
