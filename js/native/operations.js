// The release and the extension of a lock of a native backend.

import { BAD_TTL, invalidArgument } from "../base/errors.js";
import { checkSignal } from "../base/signal.js";
import { answer } from "./bridge.js";
import { readExtended, readReleased } from "./replies.js";

/** @typedef {import("./bridge.js").NativeBackend} NativeBackend */

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
