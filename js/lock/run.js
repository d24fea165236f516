// lock(): wait for the lock, run fn, release.

import { settled, settledInBackground, settledOrAborted } from "../native/bridge.js";
import { checkBackend, invalidArgument, replyError, toError } from "../base/errors.js";
import { notify } from "./handle.js";
import { startHeartbeat } from "./heartbeat.js";
import { contextOf, Holding } from "./holding.js";
import { normalizeAndValidateKey } from "../base/keys.js";
import { cancelled, checkNotCancelled, readLockConfig } from "./config.js";
import { nativeAccess, readGrant } from "../native/backend.js";
import { withTelemetry } from "./telemetry.js";
import { acquireWaiting } from "./wait.js";

/** @import { BackendCapabilities, CustomLockBackend, LockConfig, LockContext } from "../../index.js" */
/** @typedef {import("./config.js").LockPlan} LockPlan */
/** @typedef {import("../native/backend.js").NativeAccess} NativeAccess */

const ACQUIRED = "A";
const ERROR = "E";

/**
 * @param {any} backend any LockBackend
 * @param {(context: any) => any} fn
 * @param {LockConfig} config
 * @returns {Promise<any>}
 */
export function lockWith(backend, fn, config) {
  // Not an async function: each of those around the work costs turns of the microtask queue.
  try {
    if (typeof fn !== "function") {
      throw invalidArgument("lock() needs the function to run while the lock is held");
    }
    const plan = readLockConfig(config);
    if (plan.onEvent !== undefined) {
      return runOver(withTelemetry(backend, { onEvent: plan.onEvent }), fn, plan);
    }
    const access = nativeAccess(backend);
    return access === undefined ? runOver(backend, fn, plan) : runNative(access, fn, plan);
  } catch (error) {
    return Promise.reject(error);
  }
}

/**
 * lock() bound to one backend.
 * @template {BackendCapabilities} C
 * @param {CustomLockBackend<C>} backend
 * @returns {<T>(fn: (context: LockContext<C>) => Promise<T> | T, config: LockConfig) => Promise<T>}
 */
export function createAutoLock(backend) {
  checkBackend(backend, ["acquire", "release"]);
  return (/** @type {any} */ fn, config) => lockWith(backend, fn, config);
}

/**
 * Two crossings: the whole wait is one, the release the other.
 * @param {NativeAccess} access
 * @param {(context: any) => any} fn
 * @param {LockPlan} plan
 */
async function runNative({ native, ops }, fn, plan) {
  const { key } = plan;
  let reply = native.acquireWait(
    key,
    plan.ttlMs,
    plan.maxRetries,
    plan.retryDelayMs,
    plan.exponential,
    plan.jitter,
    plan.timeoutMs,
  );
  if (typeof reply !== "string") reply = await waited(native, reply, plan);
  if (!reply.startsWith(ACQUIRED)) throw replyError(reply, { key });
  const grant = readGrant(reply, key);
  const { lockId, fence, expiresAtMs, validForMs } = grant;
  const release = () => ops.release(lockId, key);
  giveBackIfCancelled(plan, release);

  /** @type {Holding | undefined} */
  let holding;
  try {
    holding = plan.autoExtend
      ? holdNative(native, key, grant, plan)
      : new Holding(lockId, expiresAtMs, performance.now() + validForMs, plan.signal);
    return await fn(contextOf(lockId, fence, holding));
  } finally {
    holding?.end();
    await releaseQuietly(release, lockId, plan);
  }
}

/**
 * A native heartbeat: it extends, and watches the deadline, off the JS thread.
 * @param {import("../native/addon.js").NativeBackend} native
 * @param {string} key
 * @param {ReturnType<typeof readGrant>} grant
 * @param {LockPlan} plan
 */
function holdNative(native, key, { lockId, expiresAtMs, validForMs }, plan) {
  const id = native.hold(lockId, plan.ttlMs, validForMs);
  if (typeof id === "string") throw replyError(id, { key, lockId });
  const holding = new Holding(lockId, expiresAtMs, Infinity, plan.signal, {
    expiresAtMs: () => native.holdExpiresAt(id),
    stop: () => native.cancel(id),
  });
  settledInBackground(id, (end) => {
    if (end.startsWith(ERROR)) holding.lose(replyError(end, { key, lockId }));
  });
  return holding;
}

/**
 * @param {import("../native/addon.js").NativeBackend} native
 * @param {number} id
 * @param {LockPlan} plan
 * @returns {Promise<string>}
 */
async function waited(native, id, plan) {
  const { signal, acquisitionSignal } = plan;
  const first = signal ?? acquisitionSignal;
  if (first === undefined) return settled(id);
  const second = first === signal ? acquisitionSignal : undefined;
  const answered = await settledOrAborted(native, id, first, second);
  if (typeof answered === "string") return answered;
  throw cancelled(plan, answered);
}

/**
 * The same over any backend.
 * @param {CustomLockBackend} backend
 * @param {(context: any) => any} fn
 * @param {LockPlan} plan
 */
async function runOver(backend, fn, plan) {
  checkBackend(
    backend,
    plan.autoExtend ? ["acquire", "release", "extend"] : ["acquire", "release"],
  );
  normalizeAndValidateKey(plan.key);
  const { lockId, fence, expiresAtMs, validUntil } = await acquireWaiting(backend, plan);
  const holding = new Holding(lockId, expiresAtMs, validUntil, plan.signal);
  const stopHeartbeat = plan.autoExtend
    ? startHeartbeat(backend, lockId, plan.ttlMs, holding)
    : undefined;
  try {
    return await fn(contextOf(lockId, fence, holding));
  } finally {
    stopHeartbeat?.();
    holding.end();
    await releaseQuietly(async () => await backend.release({ lockId }), lockId, plan);
  }
}

/**
 * A signal may have been aborted between the grant and now.
 * @param {LockPlan} plan
 * @param {() => Promise<unknown>} release
 */
function giveBackIfCancelled(plan, release) {
  try {
    checkNotCancelled(plan);
  } catch (error) {
    release().catch(() => {});
    throw error;
  }
}

/**
 * Never with the caller's signal, and never in the way of what fn returned or threw.
 * @param {() => Promise<unknown>} release
 * @param {string} lockId
 * @param {LockPlan} plan
 */
async function releaseQuietly(release, lockId, plan) {
  try {
    await release();
  } catch (thrown) {
    // Without a callback: the lock ends by its ttl.
    if (plan.onReleaseError !== undefined) {
      notify(plan.onReleaseError, toError(thrown), { lockId, key: plan.key });
    }
  }
}
