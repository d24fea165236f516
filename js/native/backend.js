// The public backend object over a native one. Each operation checks its arguments, makes one native call
// and reads the flat reply.

import { answer, confirmOnReturn, returnedId } from "./bridge.js";
import { releaseOnExit } from "./exit.js";
import { readHolderLabel, readHooks, readReleaseOnExit } from "../base/config.js";
import {
  BAD_LOCK_ID,
  BAD_TTL,
  invalidArgument,
  replyError,
  unreadableOptions,
} from "../base/errors.js";
import { checkKey } from "./keys.js";
import { readString } from "../base/options.js";
import { attachRawData, sanitizeLockInfo } from "./results.js";
import { modeOf, readSharing } from "../base/sharing.js";
import { checkSignal } from "../base/signal.js";
import { isTraced, startTrace, traced } from "./tracing.js";
import { contended, rememberHooks } from "../base/handle.js";
import { registerNative } from "./engine.js";
import { extendLock, GrantedHandle, releaseLock } from "./handle.js";
import { openNative } from "./open.js";
import { unregisterOnGc } from "./questions.js";
import { ERROR, INFO, isGrant, LOCKED, NO, readGrant, readInfo, YES } from "./replies.js";

/** @import { BackendCapabilities, ManagedLockBackend } from "../../index.js" */
/** @typedef {import("./bridge.js").NativeBackend} NativeBackend */

const CLOSE_TIMEOUT_MS = 10_000;

/**
 * Returns the result with its release traced, so that the trace covers the time the lock is held.
 * @param {any} result
 * @param {string | undefined} key
 * @param {import("./tracing.js").Facts} facts
 */
function heldInTrace(result, key, facts) {
  if (!result.ok) return result;
  const { lockId, slot } = result;
  const trace = startTrace("hold", key, lockId, { ...facts, slot });
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
  const releases = readReleaseOnExit(options);
  const native = openNative(kind, nativeConfig, target, readHolderLabel(options));
  if (releases) releaseOnExit(native);
  // The client is registered as long as the native object lives, because a held lock keeps that alive, and
  // not the backend.
  if (target !== undefined) unregisterOnGc(native, target);
  const name = { backend: capabilities.backend };
  const origin = { native, hooks, name };

  /** @param {any} opts */
  function acquire(opts) {
    if (!isTraced("acquire") && !isTraced("hold")) return acquireOnce(opts);
    const key = readString(opts, "key");
    const facts = { ...name, mode: modeOf(opts) };
    const granted = traced("acquire", key, undefined, facts, () => acquireOnce(opts));
    return granted.then((result) => heldInTrace(result, key, facts));
  }

  /** @param {any} opts */
  async function acquireOnce(opts) {
    /** @type {any} */
    let key, ttlMs, signal, concurrency, mode;
    try {
      ({ key, ttlMs, signal, concurrency, mode } = opts);
    } catch (cause) {
      throw unreadableOptions("acquire({ key, ttlMs })", opts, cause);
    }
    checkKey(key);
    if (typeof ttlMs !== "number") throw invalidArgument(BAD_TTL);
    if (signal !== undefined) checkSignal(signal, { key });
    const sharing = readSharing(concurrency, mode);
    const started = native.acquire(key, ttlMs, signal !== undefined, sharing);
    const isPending = typeof started !== "string";
    const reply = isPending ? await answer(native, started, signal, { key }) : started;
    const tag = reply.charCodeAt(0);
    if (tag === LOCKED) return contended();
    if (!isGrant(reply)) throw replyError(reply, { key });
    const id = isPending ? started : returnedId();
    if (id !== 0) confirmOnReturn(id);
    const grant = readGrant(reply, key);
    // A caller that gave a `concurrency` gets a slot, even if it is the only holder.
    if (concurrency !== undefined) grant.slot ??= 0;
    const { slot } = grant;
    if (slot === undefined) return new GrantedHandle(origin, grant, key);
    const shared = { ...name, mode: modeOf(opts), slot };
    return new GrantedHandle({ ...origin, name: shared }, grant, key);
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
    checkKey(key);
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
    if (byKey) checkKey(key);
    else if (typeof lockId !== "string") throw invalidArgument(BAD_LOCK_ID);
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
        // These are not enumerable, because programs compare the capabilities with the three specified ones.
        Object.defineProperties(
          { ...capabilities },
          {
            waitsBy: { get: () => (native.canWatch() ? "notification" : "polling") },
            supportsSharing: { get: () => native.supportsSharing() },
          },
        ),
      ),
      close,
      [Symbol.asyncDispose]: () => close(),
    })
  );
  registerNative(backend, native, { acquire, release, extend });
  rememberHooks(backend, hooks);
  return backend;
}
