// The wait of lock() over a backend that is not native: attempts, back-off, one hard wall.
// The native backends have the same loop in Rust; the delay is computed there for both.

import { retryDelay } from "../native/addon.js";
import { LONGEST_TIMER_MS } from "../base/config.js";
import { backendError, LockError } from "../base/errors.js";
import { cancelled, checkNotCancelled } from "./config.js";
import { offAbort, onAbort } from "../base/signal.js";

/** @import { CustomLockBackend } from "../../index.js" */
/** @typedef {import("./config.js").LockPlan} LockPlan */

/**
 * @typedef {object} Granted
 * @property {string} lockId
 * @property {string | undefined} fence
 * @property {number} expiresAtMs
 * @property {number} validUntil on performance.now()'s clock: until then the lock is surely held
 */

const STOPPED = Symbol("stopped");

/** What can end a wait early: either signal, or the time limit. */
class Limits {
  /** @param {LockPlan} plan */
  constructor(plan) {
    this.plan = plan;
    this.startedAt = performance.now();
    this.controller = new AbortController();
    /** @type {AbortSignal | "timeout" | undefined} */
    this.stoppedBy = undefined;
    /** @type {(() => void) | undefined} */
    this.interrupt = undefined;
    this.abort = () => this.stop(plan.signal?.aborted ? plan.signal : plan.acquisitionSignal);
    /** @type {NodeJS.Timeout | undefined} */
    this.timer = undefined;
  }

  open() {
    const { signal, acquisitionSignal, timeoutMs } = this.plan;
    if (signal !== undefined) onAbort(signal, this.abort);
    if (acquisitionSignal !== undefined) onAbort(acquisitionSignal, this.abort);
    // A limit beyond what a timer can hold (24 days) is checked between attempts only.
    if (timeoutMs <= LONGEST_TIMER_MS) {
      this.timer = setTimeout(() => this.stop("timeout"), timeoutMs);
    }
  }

  close() {
    clearTimeout(this.timer);
    const { signal, acquisitionSignal } = this.plan;
    if (signal !== undefined) offAbort(signal, this.abort);
    if (acquisitionSignal !== undefined) offAbort(acquisitionSignal, this.abort);
  }

  remainingMs() {
    return this.plan.timeoutMs - (performance.now() - this.startedAt);
  }

  /** @param {AbortSignal | "timeout" | undefined} by */
  stop(by) {
    if (this.stoppedBy !== undefined || by === undefined) return;
    this.stoppedBy = by;
    this.interrupt?.();
    this.controller.abort();
  }

  /**
   * What `work` comes to, or STOPPED if that is earlier.
   * @template T
   * @param {Promise<T>} work
   * @returns {Promise<T | typeof STOPPED>}
   */
  race(work) {
    return new Promise((resolve, reject) => {
      this.interrupt = () => resolve(STOPPED);
      if (this.stoppedBy !== undefined) this.interrupt();
      work.then(resolve, reject);
    });
  }

  /**
   * @param {number} ms
   * @returns {Promise<void | typeof STOPPED>}
   */
  sleep(ms) {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.interrupt = () => {
        clearTimeout(timer);
        resolve(STOPPED);
      };
    });
  }

  /** @param {number} attempts */
  error(attempts) {
    const { stoppedBy, plan } = this;
    if (stoppedBy !== undefined && stoppedBy !== "timeout") return cancelled(plan, stoppedBy);
    return new LockError(
      "AcquisitionTimeout",
      `Failed to acquire lock after ${attempts} attempts within ${plan.timeoutMs} ms: another holds ` +
        "it. Try later, or raise acquisition.timeoutMs and acquisition.maxRetries",
      { key: plan.key },
    );
  }
}

/**
 * @param {CustomLockBackend} backend
 * @param {LockPlan} plan
 * @returns {Promise<Granted>}
 */
export async function acquireWaiting(backend, plan) {
  const limits = new Limits(plan);
  try {
    limits.open();
    for (let attempt = 1; ; attempt += 1) {
      const granted = await tryOnce(backend, limits, attempt);
      if (granted !== undefined) return granted;
      const remaining = limits.remainingMs();
      if (attempt > plan.maxRetries || remaining <= 0) throw limits.error(attempt);
      const ms = retryDelay(
        attempt,
        plan.retryDelayMs,
        plan.exponential,
        plan.jitter,
        Math.min(remaining, LONGEST_TIMER_MS),
      );
      if ((await limits.sleep(ms)) === STOPPED) throw limits.error(attempt);
    }
  } finally {
    limits.close();
  }
}

/**
 * One attempt; undefined when the key is locked.
 * @param {CustomLockBackend} backend
 * @param {Limits} limits
 * @param {number} attempt
 * @returns {Promise<Granted | undefined>}
 */
async function tryOnce(backend, limits, attempt) {
  const { plan } = limits;
  const startedAt = performance.now();
  const attempting = attemptOf(backend, plan, limits.controller.signal);
  /** @type {any} */
  let result;
  try {
    result = await limits.race(attempting);
  } catch (thrown) {
    throw backendError("acquire", thrown, { key: plan.key });
  }
  if (result === STOPPED) {
    undoLateGrant(backend, attempting);
    throw limits.error(attempt);
  }
  if (!result?.ok) return undefined;
  try {
    checkNotCancelled(plan);
  } catch (error) {
    undoLateGrant(backend, attempting);
    throw error;
  }
  const { lockId, fence, expiresAtMs } = result;
  return { lockId, fence, expiresAtMs, validUntil: startedAt + plan.ttlMs };
}

/**
 * @param {CustomLockBackend} backend
 * @param {LockPlan} plan
 * @param {AbortSignal} signal
 */
async function attemptOf(backend, plan, signal) {
  return await backend.acquire({ key: plan.key, ttlMs: plan.ttlMs, signal });
}

/**
 * Nobody waits for the lock any more: if it is granted all the same, give it back.
 * @param {CustomLockBackend} backend
 * @param {Promise<any>} attempting
 */
function undoLateGrant(backend, attempting) {
  attempting
    .then((result) => (result?.ok ? backend.release({ lockId: result.lockId }) : undefined))
    // It ends by its ttl then.
    .catch(() => {});
}
