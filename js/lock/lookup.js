// Diagnostics that use the lookup() of any backend.

import { RAW_DATA } from "../base/constants.js";
import { checkKey } from "../native/keys.js";
import { BAD_LOCK_ID, checkBackend, invalidArgument, unreadableOptions } from "../base/errors.js";

/**
 * @param {any} backend
 * @param {"key" | "lockId"} mode
 * @param {unknown} value
 * @param {{ signal?: AbortSignal }} [opts]
 * @returns {Promise<any>}
 */
async function lookup(backend, mode, value, opts) {
  checkBackend(backend, ["lookup"]);
  if (mode === "key") checkKey(value);
  else if (typeof value !== "string") throw invalidArgument(BAD_LOCK_ID);
  /** @type {unknown} */
  let signal;
  if (opts !== undefined) {
    try {
      ({ signal } = opts);
    } catch (cause) {
      throw unreadableOptions("The lookup", opts, cause);
    }
  }
  return backend.lookup(signal === undefined ? { [mode]: value } : { [mode]: value, signal });
}

/**
 * Returns the info with its raw data. If the backend attached none, only the key or lockId of the query is
 * known.
 * @param {any} info
 * @param {{ key?: string, lockId?: string }} query
 * @returns {any}
 */
function withRaw(info, query) {
  if (info === null || info === undefined) return null;
  const { key, lockId } = info[RAW_DATA] ?? query;
  return {
    ...info,
    key: key ?? "[backend does not provide raw key]",
    lockId: lockId ?? "[backend does not provide raw lockId]",
  };
}

/**
 * @param {any} backend
 * @param {string} key
 * @param {{ signal?: AbortSignal }} [opts]
 * @returns {Promise<any>}
 */
export async function getByKey(backend, key, opts) {
  return lookup(backend, "key", key, opts);
}

/**
 * @param {any} backend
 * @param {string} lockId
 * @param {{ signal?: AbortSignal }} [opts]
 * @returns {Promise<any>}
 */
export async function getById(backend, lockId, opts) {
  return lookup(backend, "lockId", lockId, opts);
}

/**
 * Returns the lock with its raw key and lockId: for debugging, not for logs.
 * @param {any} backend
 * @param {string} key
 * @param {{ signal?: AbortSignal }} [opts]
 * @returns {Promise<any>}
 */
export async function getByKeyRaw(backend, key, opts) {
  return withRaw(await lookup(backend, "key", key, opts), { key });
}

/**
 * Returns the lock with its raw key and lockId: for debugging, not for logs.
 * @param {any} backend
 * @param {string} lockId
 * @param {{ signal?: AbortSignal }} [opts]
 * @returns {Promise<any>}
 */
export async function getByIdRaw(backend, lockId, opts) {
  return withRaw(await lookup(backend, "lockId", lockId, opts), { lockId });
}

/**
 * @param {any} backend
 * @param {any} query `{ key }` or `{ lockId }`
 * @returns {Promise<any>}
 */
export async function lookupDebug(backend, query) {
  checkBackend(backend, ["lookup"]);
  /** @type {unknown} */
  let key, lockId, signal;
  try {
    ({ key, lockId, signal } = query);
  } catch (cause) {
    throw unreadableOptions("lookupDebug(backend, { key } or { lockId })", query, cause);
  }
  if ((key === undefined) === (lockId === undefined)) {
    throw invalidArgument("lookupDebug() needs either a key or a lockId, and not both");
  }
  const opts = signal === undefined ? undefined : { signal: /** @type {AbortSignal} */ (signal) };
  return key === undefined
    ? getByIdRaw(backend, /** @type {string} */ (lockId), opts)
    : getByKeyRaw(backend, /** @type {string} */ (key), opts);
}

/**
 * Returns whether the lock is still held: for diagnostics, never as a guard.
 * @param {any} backend
 * @param {string} lockId
 * @param {{ signal?: AbortSignal }} [opts]
 * @returns {Promise<boolean>}
 */
export async function owns(backend, lockId, opts) {
  return Boolean(await lookup(backend, "lockId", lockId, opts));
}
