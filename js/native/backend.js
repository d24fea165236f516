// The public backend object over a native one: checks types, calls once, reads the flat reply.

import { openNative, settled, settledOrAborted } from "./bridge.js";
import { readHooks } from "../base/config.js";
import { FENCE_THRESHOLDS } from "../base/constants.js";
import {
  BAD_LOCK_ID,
  BAD_TTL,
  invalidArgument,
  KEY_NOT_STRING,
  replyError,
  unreadableOptions,
} from "../base/errors.js";
import { noteExtension } from "../lock/extensions.js";
import { logFenceWarning } from "../base/fence.js";
import { contended, Held, rememberHooks } from "../lock/handle.js";
import { attachRawData, failure, sanitizeLockInfo } from "../base/results.js";
import { aborted, checkSignal } from "../base/signal.js";

/** @import { BackendCapabilities, ManagedLockBackend } from "../../index.js" */
/** @typedef {import("./addon.js").NativeBackend} NativeBackend */
/** @typedef {import("../lock/handle.js").HandleOps} HandleOps */

// First characters of replies.
const ACQUIRED = 0x41; // A lockId(22) fence(15) expiresAtMs , validForMs
const LOCKED = 0x4c; // L
const YES = 0x31; // 1 [expiresAtMs]
const NO = 0x30; // 0
const EXPIRED = 0x32; // 2
const INFO = 0x49; // I lockId(22) fence(15) expiresAtMs , acquiredAtMs , key
const ERROR = 0x45; // E {json}
const { asyncDispose } = Symbol;
const LOCK_ID_END = 23;
const FENCE_END = 38;

/**
 * What lock() needs to take the short way, for backends made here.
 * @typedef {object} NativeAccess
 * @property {NativeBackend} native
 * @property {HandleOps} ops
 * @property {Function} acquire
 * @property {Function} release
 * @property {Function} extend
 */

/** @type {WeakMap<object, NativeAccess>} */
const access = new WeakMap();

/**
 * The native side of a backend, unless one of its operations was replaced (a spy, a wrapper):
 * then these must be called.
 * @param {any} backend
 * @returns {NativeAccess | undefined}
 */
export function nativeAccess(backend) {
  const found = access.get(backend);
  if (
    found !== undefined &&
    backend.acquire === found.acquire &&
    backend.release === found.release &&
    backend.extend === found.extend
  ) {
    return found;
  }
  return undefined;
}

/**
 * @param {string} reply an `A…`
 * @param {string} key
 */
export function readGrant(reply, key) {
  const comma = reply.indexOf(",", FENCE_END);
  const fence = reply.slice(LOCK_ID_END, FENCE_END);
  if (fence > FENCE_THRESHOLDS.WARN) logFenceWarning(fence, key);
  return {
    lockId: reply.slice(1, LOCK_ID_END),
    fence,
    expiresAtMs: Number(reply.slice(FENCE_END, comma)),
    validForMs: Number(reply.slice(comma + 1)),
  };
}

/**
 * Waits for a reply if it is not there yet; throws when the signal is aborted first.
 * @param {NativeBackend} native
 * @param {string | number} reply
 * @param {AbortSignal | undefined} signal
 * @param {{ key?: string, lockId?: string }} context
 * @returns {string | Promise<string>}
 */
function answer(native, reply, signal, context) {
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

/**
 * @param {NativeBackend} native
 * @returns {HandleOps}
 */
function operations(native) {
  return {
    async release(lockId, key, signal) {
      if (signal !== undefined) checkSignal(signal);
      let reply = native.release(lockId, key);
      if (typeof reply !== "string") reply = await answer(native, reply, signal, { lockId });
      switch (reply.charCodeAt(0)) {
        case YES:
          return { ok: true };
        case NO:
          return failure("not-found");
        case EXPIRED:
          return failure("expired");
        default:
          throw replyError(reply, { lockId });
      }
    },

    async extend(lockId, ttlMs, signal) {
      if (typeof ttlMs !== "number") throw invalidArgument(BAD_TTL);
      if (signal !== undefined) checkSignal(signal);
      const startedAt = performance.now();
      let reply = native.extend(lockId, ttlMs);
      if (typeof reply !== "string") reply = await answer(native, reply, signal, { lockId });
      switch (reply.charCodeAt(0)) {
        case YES: {
          const expiresAtMs = Number(reply.slice(1));
          noteExtension(lockId, expiresAtMs, startedAt + ttlMs);
          return { ok: true, expiresAtMs };
        }
        case NO:
          return failure("not-found");
        case EXPIRED:
          return failure("expired");
        default:
          throw replyError(reply, { lockId });
      }
    },
  };
}

/**
 * @template {BackendCapabilities} C
 * @param {string} kind
 * @param {object} nativeConfig what the native side deserializes
 * @param {unknown} options the user's options; those that all backends share are read here
 * @param {C} capabilities
 * @returns {ManagedLockBackend<C>}
 */
export function createNativeBackend(kind, nativeConfig, options, capabilities) {
  const hooks = readHooks(options);
  const native = openNative(kind, nativeConfig);
  const ops = operations(native);
  const { release: releaseLock, extend: extendLock } = ops;

  /** @param {any} opts */
  async function acquire(opts) {
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
    const { lockId, expiresAtMs, fence } = readGrant(reply, key);
    const held = new Held(ops, lockId, key, hooks);
    /** @type {any} */
    const result = {
      ok: true,
      lockId,
      expiresAtMs,
      fence,
      release: (/** @type {AbortSignal} */ signal) => held.release(signal),
      extend: (/** @type {number} */ ttlMs, /** @type {AbortSignal} */ signal) =>
        extendLock(lockId, ttlMs, signal),
    };
    // Far cheaper than a computed name in the literal.
    result[asyncDispose] = () => held.dispose();
    return result;
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
    return releaseLock(lockId, /** @type {any} */ (null), signal);
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
    return extendLock(lockId, ttlMs, signal);
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
    const comma = reply.indexOf(",", FENCE_END);
    const secondComma = reply.indexOf(",", comma + 1);
    const raw = {
      lockId: reply.slice(1, LOCK_ID_END),
      fence: reply.slice(LOCK_ID_END, FENCE_END),
      expiresAtMs: Number(reply.slice(FENCE_END, comma)),
      acquiredAtMs: Number(reply.slice(comma + 1, secondComma)),
      key: reply.slice(secondComma + 1),
    };
    return attachRawData(sanitizeLockInfo(raw, capabilities), raw);
  }

  async function close() {
    const reply = await answer(native, native.close(), undefined, {});
    if (reply.charCodeAt(0) === ERROR) throw replyError(reply);
  }

  const backend = /** @type {ManagedLockBackend<C>} */ (
    /** @type {unknown} */ ({
      acquire,
      release,
      extend,
      isLocked,
      lookup,
      capabilities: Object.freeze({ ...capabilities }),
      close,
      [Symbol.asyncDispose]: close,
    })
  );
  access.set(backend, { native, ops, acquire, release, extend });
  rememberHooks(backend, hooks);
  return backend;
}
