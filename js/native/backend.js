// The public backend object over a native one: checks types, calls once, reads the flat reply.

import { openNative, settled, settledOrAborted } from "./bridge.js";
import { readHooks } from "../base/config.js";
import {
  BAD_LOCK_ID,
  BAD_TTL,
  invalidArgument,
  KEY_NOT_STRING,
  replyError,
  unreadableOptions,
} from "../base/errors.js";
import { readString } from "../base/options.js";
import { attachRawData, sanitizeLockInfo } from "../base/results.js";
import { aborted, checkSignal } from "../base/signal.js";
import { isTraced, startTrace, traced } from "../base/tracing.js";
import { contended, rememberHooks } from "../lock/handle.js";
import { knowNative } from "./engine.js";
import { GrantedHandle } from "./handle.js";
import {
  ACQUIRED,
  ERROR,
  INFO,
  LOCKED,
  NO,
  readExtended,
  readGrant,
  readInfo,
  readReleased,
  YES,
} from "./replies.js";

/** @import { BackendCapabilities, ManagedLockBackend } from "../../index.js" */
/** @typedef {import("./bridge.js").NativeBackend} NativeBackend */

const CLOSE_TIMEOUT_MS = 10_000;

/**
 * Waits for a reply if it is not there yet; throws when the signal is aborted first.
 * @param {NativeBackend} native
 * @param {string | number} reply
 * @param {AbortSignal | undefined} signal
 * @param {{ key?: string, lockId?: string }} context
 * @returns {string | Promise<string>}
 */
export function answer(native, reply, signal, context) {
  // Not an async function: that would cost turns of the microtask queue.
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

/** What a native backend is called in traces.
 * @type {WeakMap<NativeBackend, { backend: string | undefined }>} */
const names = new WeakMap();

/** @param {NativeBackend} native */
export function nameOf(native) {
  return names.get(native) ?? {};
}

/**
 * @param {NativeBackend} native
 * @param {string} lockId
 * @param {string | null} key wakes a caller of this process that waits for it
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

/**
 * The handle, with the time until its release traced.
 * @param {any} result
 * @param {string | undefined} key
 * @param {{ backend: string | undefined }} name
 */
function heldInTrace(result, key, name) {
  const trace = result.ok ? startTrace("hold", key, result.lockId, name) : undefined;
  if (trace === undefined) return result;
  const { release, [Symbol.asyncDispose]: dispose } = result;
  const end = () => trace.end(true);
  result.release = (/** @type {AbortSignal} */ signal) => release(signal).finally(end);
  result[Symbol.asyncDispose] = () => dispose().finally(end);
  return result;
}

/**
 * @template {BackendCapabilities} C
 * @param {string} kind
 * @param {object} nativeConfig what the native side deserializes
 * @param {unknown} options the user's options; those that all backends share are read here
 * @param {C} capabilities
 * @param {number} [target] the number under which the user's client is asked
 * @returns {ManagedLockBackend<C>}
 */
export function createNativeBackend(kind, nativeConfig, options, capabilities, target) {
  const hooks = readHooks(options);
  const native = openNative(kind, nativeConfig, target);
  const name = { backend: capabilities.backend };
  names.set(native, name);

  /** @param {any} opts */
  function acquire(opts) {
    if (!isTraced("acquire") && !isTraced("hold")) return acquireOnce(opts);
    const key = readString(opts, "key");
    const granted = traced("acquire", key, undefined, name, () => acquireOnce(opts));
    return granted.then((result) => heldInTrace(result, key, name));
  }

  /** @param {any} opts */
  async function acquireOnce(opts) {
    /** @type {any} */
    let key, ttlMs, signal;
    try {
      ({ key, ttlMs, signal } = opts);
    } catch (cause) {
      throw unreadableOptions("acquire({ key, ttlMs })", opts, cause);
    }
    if (typeof key !== "string") throw invalidArgument(KEY_NOT_STRING);
    if (typeof ttlMs !== "number") throw invalidArgument(BAD_TTL);
    if (signal !== undefined) checkSignal(signal, { key });
    let reply = native.acquire(key, ttlMs, signal !== undefined);
    if (typeof reply !== "string") reply = await answer(native, reply, signal, { key });
    const tag = reply.charCodeAt(0);
    if (tag === LOCKED) return contended();
    if (tag !== ACQUIRED) throw replyError(reply, { key });
    return new GrantedHandle(native, readGrant(reply, key), key, hooks);
  }

  /** @param {any} opts */
  async function release(opts) {
    /** @type {any} */
    let lockId, signal;
    try {
      ({ lockId, signal } = opts);
    } catch (cause) {
      throw unreadableOptions("release({ lockId })", opts, cause);
    }
    if (typeof lockId !== "string") throw invalidArgument(BAD_LOCK_ID);
    const work = () => releaseLock(native, lockId, null, signal);
    return isTraced("release") ? traced("release", undefined, lockId, name, work) : work();
  }

  /** @param {any} opts */
  async function extend(opts) {
    /** @type {any} */
    let lockId, ttlMs, signal;
    try {
      ({ lockId, ttlMs, signal } = opts);
    } catch (cause) {
      throw unreadableOptions("extend({ lockId, ttlMs })", opts, cause);
    }
    if (typeof lockId !== "string") throw invalidArgument(BAD_LOCK_ID);
    const work = () => extendLock(native, lockId, ttlMs, signal);
    return isTraced("extend") ? traced("extend", undefined, lockId, name, work) : work();
  }

  /** @param {any} opts */
  async function isLocked(opts) {
    /** @type {any} */
    let key, signal;
    try {
      ({ key, signal } = opts);
    } catch (cause) {
      throw unreadableOptions("isLocked({ key })", opts, cause);
    }
    if (typeof key !== "string") throw invalidArgument(KEY_NOT_STRING);
    if (signal !== undefined) checkSignal(signal, { key });
    const reply = await answer(native, native.isLocked(key), signal, { key });
    const tag = reply.charCodeAt(0);
    if (tag !== YES && tag !== NO) throw replyError(reply, { key });
    return tag === YES;
  }

  /** @param {any} opts */
  async function lookup(opts) {
    /** @type {any} */
    let key, lockId, signal;
    try {
      ({ key, lockId, signal } = opts);
    } catch (cause) {
      throw unreadableOptions("lookup({ key }) or lookup({ lockId })", opts, cause);
    }
    const byKey = key !== undefined;
    if (byKey === (lockId !== undefined)) {
      throw invalidArgument("lookup() needs either a key or a lockId, and not both");
    }
    if (byKey && typeof key !== "string") throw invalidArgument(KEY_NOT_STRING);
    if (!byKey && typeof lockId !== "string") throw invalidArgument(BAD_LOCK_ID);
    const context = byKey ? { key } : { lockId };
    if (signal !== undefined) checkSignal(signal, context);
    const started = byKey ? native.lookupKey(key) : native.lookupId(lockId);
    const reply = await answer(native, started, signal, context);
    const tag = reply.charCodeAt(0);
    if (tag === NO) return null;
    if (tag !== INFO) throw replyError(reply, context);
    const raw = readInfo(reply);
    return attachRawData(sanitizeLockInfo(raw, capabilities), raw);
  }

  /** @param {any} [opts] */
  async function close(opts) {
    const timeoutMs = opts?.timeoutMs ?? CLOSE_TIMEOUT_MS;
    if (!(typeof timeoutMs === "number" && timeoutMs >= 0)) {
      throw invalidArgument("timeoutMs must be a non-negative number (milliseconds)");
    }
    const reply = await answer(native, native.close(timeoutMs), undefined, {});
    if (reply.charCodeAt(0) === ERROR) throw replyError(reply);
  }

  const backend = /** @type {ManagedLockBackend<C>} */ (
    /** @type {unknown} */ ({
      acquire,
      release,
      extend,
      isLocked,
      lookup,
      capabilities: Object.freeze(
        // Not among those that are listed: programs compare these with the three that are specified.
        Object.defineProperty({ ...capabilities }, "waitsBy", {
          get: () => (native.canWatch() ? "notification" : "polling"),
        }),
      ),
      close,
      [Symbol.asyncDispose]: () => close(),
    })
  );
  knowNative(backend, native, { acquire, release, extend });
  rememberHooks(backend, hooks);
  return backend;
}
