// What a JavaScript Redis client threw, as a LockError. Its own error is not kept as the cause:
// clients attach the command with its arguments, and these are keys and lockIds.

import { LockError, replyError } from "../../base/errors.js";
import { redisError } from "../../native/addon.js";

/** @import { LockErrorCode, LockErrorContext } from "../../../index.js" */

const REPLY_NAMES = ["ReplyError", "ErrorReply", "SimpleError", "BlobError"];

/**
 * Whether the server answered with this error: then the request had no effect.
 * @param {any} error
 */
export function isReply(error) {
  if (REPLY_NAMES.includes(error?.name) || REPLY_NAMES.includes(error?.constructor?.name)) {
    return true;
  }
  // Wrappers and mocks: `WRONGTYPE Operation against a key…`
  return /^[A-Z][A-Z0-9]+ /.test(String(error?.message)) && error?.code === undefined;
}

/**
 * @param {any} error
 * @param {LockErrorContext} context
 * @returns {LockError & { outcomeUnknown?: boolean }}
 */
export function clientError(error, context) {
  if (error instanceof LockError) {
    // A timeout or an abort of ours: the request is on its way.
    return marked(new LockError(error.code, error.message, { ...context, ...error.context }), true);
  }
  if (isReply(error)) return replyError(redisError(String(error.message)), context);
  const [code, message] = classify(error);
  const named = typeof error?.code === "string" ? error.code : error?.name;
  const cause = typeof named === "string" ? { cause: new Error(named) } : undefined;
  return marked(new LockError(code, message, { ...context, ...cause }), true);
}

/** @param {LockErrorContext} context */
export function unexpectedReply(context) {
  const text = "Redis answered with something unexpected: is eval() that of a Redis client?";
  return marked(new LockError("Internal", text, context), true);
}

/**
 * @param {any} error
 * @returns {[LockErrorCode, string]}
 */
function classify(error) {
  const text = `${error?.code} ${error?.name} ${error?.message}`;
  if (/time(d)?[ -]?out|ETIMEDOUT/i.test(text)) {
    return ["NetworkTimeout", "The Redis client timed out"];
  }
  const away = /connect|closed|offline|socket|MaxRetries|RootNodes|Slots/i;
  // Or a code of the system: ECONNREFUSED, EPIPE and the like.
  if (away.test(text) || /\bE[A-Z]{4,}\b/.test(text)) {
    return ["ServiceUnavailable", "The Redis client has no connection"];
  }
  return ["Internal", "The Redis client failed"];
}

/**
 * @param {LockError} error
 * @param {boolean} outcomeUnknown
 * @returns {LockError & { outcomeUnknown?: boolean }}
 */
function marked(error, outcomeUnknown) {
  return Object.defineProperty(error, "outcomeUnknown", { value: outcomeUnknown });
}
