// Operations on a native backend: one call, and the reply to it, now or later.

import { BAD_TTL, invalidArgument } from "../base/errors.js";
import { aborted, checkSignal } from "../base/signal.js";
import { settled, settledOrAborted } from "./bridge.js";
import { readExtended, readReleased } from "./replies.js";

/** @typedef {import("./bridge.js").NativeBackend} NativeBackend */

/**
 * Returns the reply, or waits for it if it is not there yet. Rejects if the signal is aborted first.
 * @param {NativeBackend} native
 * @param {string | number} reply
 * @param {AbortSignal | undefined} signal
 * @param {{ key?: string, lockId?: string }} context
 * @returns {string | Promise<string>}
 */
export function answer(native, reply, signal, context) {
  // Not an async function, because that would cost extra turns of the microtask queue.
  if (typeof reply === "string") return reply;
  if (signal === undefined) return settled(reply);
  return settledUnlessAborted(native, reply, signal, context);
}

/**
 * @param {NativeBackend} native
 * @param {number} id
 * @param {AbortSignal} signal
 * @param {{ key?: string, lockId?: string }} context
 * @returns {Promise<string>}
 */
async function settledUnlessAborted(native, id, signal, context) {
  const answered = await settledOrAborted(native, id, signal);
  if (typeof answered === "string") return answered;
  throw aborted("Operation aborted by signal", signal, context);
}

/** The names of native backends in traces.
 * @type {WeakMap<NativeBackend, { backend: string | undefined }>} */
const names = new WeakMap();

/**
 * @param {NativeBackend} native
 * @param {{ backend: string | undefined }} name
 */
export function rememberName(native, name) {
  names.set(native, name);
}

/** @param {NativeBackend} native */
export function nameOf(native) {
  return names.get(native) ?? {};
}

/**
 * @param {NativeBackend} native
 * @param {string} lockId
 * @param {string | null} key wakes a waiter of this process, if given
 * @param {AbortSignal} [signal]
 */
export async function releaseLock(native, lockId, key, signal) {
  if (signal !== undefined) checkSignal(signal);
  let reply = native.release(lockId, key);
  if (typeof reply !== "string") reply = await answer(native, reply, signal, { lockId });
  return readReleased(reply, { lockId });
}

/**
 * @param {NativeBackend} native
 * @param {string} lockId
 * @param {number} ttlMs
 * @param {AbortSignal} [signal]
 * @param {(validUntil: number) => void} [onValid]
 */
export async function extendLock(native, lockId, ttlMs, signal, onValid) {
  if (typeof ttlMs !== "number") throw invalidArgument(BAD_TTL);
  if (signal !== undefined) checkSignal(signal);
  let reply = native.extend(lockId, ttlMs);
  if (typeof reply !== "string") reply = await answer(native, reply, signal, { lockId });
  return readExtended(reply, { lockId }, onValid);
}
