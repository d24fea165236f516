// Administration: lists locks, releases them by force, and checks the store.

import { explain, invalidArgument, replyError, unreadableOptions } from "../base/errors.js";
import { checkKey } from "../native/keys.js";
import { attachRawData, sanitizeLockInfo } from "../native/results.js";
import { checkSignal } from "../base/signal.js";
import { answer } from "../native/bridge.js";
import { NO, YES } from "../native/replies.js";
import { nativeBehind } from "./telemetry.js";

/** @import { BackendCapabilities } from "../../index.js" */

const PAGE = 100;

/**
 * @param {string} call the name of the function, for messages
 * @param {any} backend
 */
function needNative(call, backend) {
  const native = nativeBehind(backend);
  if (native === undefined) {
    throw invalidArgument(
      `${call}() needs a backend that this package created${explain(backend) || ". This is another one"}`,
    );
  }
  return native;
}

/**
 * Lists the live locks, page by page.
 * @param {any} backend
 * @param {any} [options]
 * @returns {AsyncGenerator<any, void, void>}
 */
export async function* listLocks(backend, options) {
  /** @type {any} */
  let limit, raw, signal;
  try {
    ({ limit = Infinity, raw = false, signal } = options ?? {});
  } catch (cause) {
    throw unreadableOptions("listLocks(backend, { limit, raw, signal })", options, cause);
  }
  if (!(limit === Infinity || Number.isInteger(limit)) || limit < 0) {
    throw invalidArgument("limit must be a non-negative integer");
  }
  if (typeof raw !== "boolean") throw invalidArgument("raw must be true or false");
  const native = needNative("listLocks", backend);
  const capabilities = /** @type {BackendCapabilities} */ (backend.capabilities);
  /** @type {string | null} */
  let after = null;
  for (let left = limit; left > 0;) {
    if (signal !== undefined) checkSignal(signal);
    const started = native.list(after, Math.min(left, PAGE));
    const reply = await answer(native, started, signal, {});
    if (reply.charCodeAt(0) !== YES) throw replyError(reply);
    const { locks, next } = JSON.parse(reply.slice(1));
    for (const lock of locks.slice(0, left)) {
      const mode = lock.slot === undefined ? "exclusive" : "shared";
      const info = attachRawData(sanitizeLockInfo({ ...lock, mode }, capabilities), lock);
      yield raw ? { ...info, key: lock.key, lockId: lock.lockId } : info;
    }
    left -= locks.length;
    if (next === null) return;
    after = next;
  }
}

/**
 * Releases the lock on a key, whoever holds it.
 * @param {any} backend
 * @param {any} opts
 * @returns {Promise<{ ok: boolean }>}
 */
export async function forceRelease(backend, opts) {
  /** @type {any} */
  let key, signal;
  try {
    ({ key, signal } = opts);
  } catch (cause) {
    throw unreadableOptions("forceRelease(backend, { key })", opts, cause);
  }
  checkKey(key);
  const native = needNative("forceRelease", backend);
  if (signal !== undefined) checkSignal(signal, { key });
  const reply = await answer(native, native.forceRelease(key), signal, { key });
  const tag = reply.charCodeAt(0);
  if (tag !== YES && tag !== NO) throw replyError(reply, { key });
  return { ok: tag === YES };
}

/**
 * Checks whether the store is set up for locks. The findings are for people.
 * @param {any} backend
 * @param {any} [options]
 * @returns {Promise<any[]>}
 */
export async function diagnose(backend, options) {
  /** @type {any} */
  let signal;
  try {
    ({ signal } = options ?? {});
  } catch (cause) {
    throw unreadableOptions("diagnose(backend, { signal })", options, cause);
  }
  const native = needNative("diagnose", backend);
  if (signal !== undefined) checkSignal(signal);
  const reply = await answer(native, native.report(), signal, {});
  if (reply.charCodeAt(0) !== YES) throw replyError(reply);
  return JSON.parse(reply.slice(1));
}
