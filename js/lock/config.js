// The configuration of lock(), read once and checked.

import { BACKEND_DEFAULTS, LOCK_DEFAULTS } from "../base/constants.js";
import { BAD_TTL, invalidArgument, KEY_NOT_STRING, unreadableOptions } from "../base/errors.js";
import { aborted, isAborted } from "../base/signal.js";

/** @import { LockConfig, LockEvent, OnReleaseError } from "../../index.js" */

const JITTER = { none: 0, equal: 1, full: 2 };

/**
 * @typedef {object} LockPlan
 * @property {string} key
 * @property {number} ttlMs
 * @property {AbortSignal | undefined} signal
 * @property {AbortSignal | undefined} acquisitionSignal
 * @property {OnReleaseError | undefined} onReleaseError
 * @property {((event: LockEvent) => void) | undefined} onEvent
 * @property {boolean} autoExtend
 * @property {number} maxRetries
 * @property {number} retryDelayMs
 * @property {boolean} exponential
 * @property {number} jitter 0 none, 1 equal, 2 full
 * @property {number} timeoutMs
 */

/**
 * @param {LockConfig} config
 * @returns {LockPlan}
 */
export function readLockConfig(config) {
  /** @type {any} */
  let key, ttlMs, signal, onReleaseError, onEvent, autoExtend;
  /** @type {any} */
  let maxRetries, retryDelayMs, timeoutMs, backoff, jitter, acquisitionSignal;
  try {
    /** @type {any} */
    let acquisition;
    ({ key, ttlMs, signal, onReleaseError, onEvent, autoExtend, acquisition } = config);
    if (acquisition !== undefined) {
      if (typeof acquisition !== "object" || acquisition === null) {
        throw invalidArgument("acquisition must be an object");
      }
      ({ maxRetries, retryDelayMs, timeoutMs, backoff, jitter } = acquisition);
      acquisitionSignal = acquisition.signal;
    }
  } catch (cause) {
    throw unreadableOptions("lock(fn, { key })", config, cause);
  }
  ttlMs ??= BACKEND_DEFAULTS.ttlMs;
  maxRetries ??= LOCK_DEFAULTS.maxRetries;
  retryDelayMs ??= LOCK_DEFAULTS.retryDelayMs;
  timeoutMs ??= LOCK_DEFAULTS.timeoutMs;
  backoff ??= LOCK_DEFAULTS.backoff;
  jitter ??= LOCK_DEFAULTS.jitter;

  if (typeof key !== "string") throw invalidArgument(KEY_NOT_STRING);
  if (!Number.isSafeInteger(ttlMs) || ttlMs <= 0) throw invalidArgument(BAD_TTL);
  if (!(Number.isInteger(maxRetries) || maxRetries === Infinity) || maxRetries < 0) {
    throw invalidArgument("acquisition.maxRetries must be a non-negative integer or Infinity");
  }
  if (!Number.isFinite(retryDelayMs) || retryDelayMs < 0) {
    throw invalidArgument("acquisition.retryDelayMs must be a non-negative number (milliseconds)");
  }
  if (!(typeof timeoutMs === "number" && timeoutMs >= 0)) {
    throw invalidArgument("acquisition.timeoutMs must be a non-negative number (milliseconds)");
  }
  if (backoff !== "exponential" && backoff !== "fixed") {
    throw invalidArgument('acquisition.backoff must be "exponential" or "fixed"');
  }
  if (typeof jitter !== "string" || !Object.hasOwn(JITTER, jitter)) {
    throw invalidArgument('acquisition.jitter must be "equal", "full" or "none"');
  }
  if (onReleaseError !== undefined && typeof onReleaseError !== "function") {
    throw invalidArgument("onReleaseError must be a function");
  }
  if (onEvent !== undefined && typeof onEvent !== "function") {
    throw invalidArgument("onEvent must be a function");
  }
  if (autoExtend !== undefined && typeof autoExtend !== "boolean") {
    throw invalidArgument("autoExtend must be true or false");
  }
  /** @type {LockPlan} */
  const plan = {
    key,
    ttlMs,
    signal,
    acquisitionSignal,
    onReleaseError,
    onEvent,
    autoExtend: autoExtend === true,
    maxRetries,
    retryDelayMs,
    exponential: backoff === "exponential",
    jitter: JITTER[/** @type {keyof typeof JITTER} */ (jitter)],
    timeoutMs,
  };
  checkNotCancelled(plan);
  return plan;
}

/**
 * Throws when one of the two signals is aborted (or is no signal).
 * @param {LockPlan} plan
 */
export function checkNotCancelled(plan) {
  const { signal, acquisitionSignal } = plan;
  if (signal !== undefined && isAborted(signal)) throw cancelled(plan, signal);
  if (acquisitionSignal !== undefined && isAborted(acquisitionSignal)) {
    throw cancelled(plan, acquisitionSignal);
  }
}

/**
 * @param {LockPlan} plan
 * @param {AbortSignal} signal one of the plan's two
 */
export function cancelled(plan, signal) {
  const message =
    signal === plan.signal
      ? "The wait for the lock was cancelled by user signal"
      : "Acquisition cancelled by acquisition.signal";
  return aborted(message, signal, { key: plan.key });
}
