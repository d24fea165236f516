// Reads and checks the config of lock(), hold(), lead() and their variants.

import { BACKEND_DEFAULTS, LOCK_DEFAULTS } from "../base/constants.js";
import {
  BAD_TTL,
  invalidArgument,
  KEY_NOT_STRING,
  LockError,
  unreadableOptions,
} from "../base/errors.js";
import { checkKey } from "../native/keys.js";
import { nearMiss } from "../base/options.js";
import { checkNumberOfKeys, readSharing } from "../base/sharing.js";
import { isBackend, recognize } from "../base/recognize.js";
import { aborted, isAborted } from "../base/signal.js";

/** @import { LockConfig, SeveralLocksConfig, LockEvent, OnReleaseError } from "../../index.js" */

const JITTER = { none: 0, equal: 1, full: 2 };

const FIELDS = [
  ...["key", "keys", "ttlMs", "signal", "acquisition", "autoExtend", "maxHoldMs", "minHoldMs"],
  ...["throwIfLost", "name", "onReleaseError", "onEvent", "concurrency", "mode"],
];
const ACQUISITION_FIELDS = [
  ...["maxRetries", "retryDelayMs", "maxDelayMs", "timeoutMs", "backoff", "jitter", "signal"],
];

/**
 * @typedef {object} LockPlan
 * @property {string} key empty if there are several
 * @property {readonly string[] | undefined} keys to lock together, as the caller wrote them
 * @property {number} ttlMs
 * @property {AbortSignal | undefined} signal
 * @property {AbortSignal | undefined} acquisitionSignal
 * @property {OnReleaseError | undefined} onReleaseError
 * @property {((event: LockEvent) => void) | undefined} onEvent
 * @property {boolean | undefined} autoExtend undefined if the kind of backend decides
 * @property {boolean} throwIfLost
 * @property {string | undefined} name
 * @property {"shared" | undefined} mode undefined if the lock is exclusive
 * @property {boolean} hasLimit whether the caller gave a `concurrency`, so that even a single holder has a
 *   slot
 * @property {Float64Array} limits of the wait and of the hold, and how the key is shared, as the native
 *   side takes them
 */

/**
 * @param {LockConfig | SeveralLocksConfig} config
 * @param {string} call as the user wrote it, for messages
 * @param {boolean} [leads] whether it is for lead(), which waits without a limit and keeps the lock alive
 * @returns {LockPlan}
 */
export function readLockConfig(config, call, leads = false) {
  /** @type {any} */
  let key, keys, ttlMs, signal, acquisition, autoExtend, throwIfLost, name, onReleaseError, onEvent;
  /** @type {any} */
  let limits, acquisitionSignal, concurrency, mode;
  try {
    ({ key, keys, ttlMs, signal, acquisition } = config);
    ({ autoExtend, throwIfLost = false, name, onReleaseError, onEvent } = config);
    // Clients of Redis have a method `keys`.
    if (typeof key !== "string" && !Array.isArray(keys)) refuseMistakes(config, call);
    refuseNearMisses(config, FIELDS, "");
    limits = readLimits(config, acquisition, leads);
    ({ concurrency } = config);
    const sharing = readSharing(concurrency, config.mode);
    if (sharing !== 0) [limits, mode] = [withSharing(limits, sharing), SHARED];
    acquisitionSignal = acquisition?.signal;
  } catch (cause) {
    if (cause instanceof LockError) throw cause;
    throw unreadableOptions(call, config, cause);
  }
  // Without a ttlMs the lock is kept alive for as long as the work takes.
  if (autoExtend === undefined && (leads || ttlMs !== undefined)) autoExtend = leads;
  if (ttlMs === undefined) ttlMs = BACKEND_DEFAULTS.ttlMs;
  if (keys === undefined) checkKey(key);
  else [key, keys] = ["", readKeys(key, keys, leads)];
  if (!Number.isSafeInteger(ttlMs) || ttlMs <= 0) throw invalidArgument(BAD_TTL);
  checkType("onReleaseError", onReleaseError ?? undefined, "function");
  checkType("onEvent", onEvent ?? undefined, "function");
  checkType("autoExtend", autoExtend, "boolean");
  checkType("throwIfLost", throwIfLost, "boolean");
  checkType("name", name, "string");
  /** @type {LockPlan} */
  const plan = {
    key,
    keys,
    ttlMs,
    signal,
    acquisitionSignal,
    onReleaseError: onReleaseError ?? undefined,
    onEvent: onEvent ?? undefined,
    autoExtend,
    throwIfLost,
    name,
    limits,
    mode,
    hasLimit: concurrency !== undefined,
  };
  checkNotCancelled(plan);
  return plan;
}

/**
 * Reads and checks the keys that are to be locked together.
 * @param {unknown} key
 * @param {unknown} keys
 * @param {boolean} leads
 * @returns {string[]}
 */
function readKeys(key, keys, leads) {
  if (leads) {
    throw invalidArgument("lead() got several keys, but a leader is elected for one key: set key");
  }
  if (key !== undefined) throw invalidArgument("key and keys exclude each other: set one of them");
  if (!Array.isArray(keys)) throw invalidArgument("keys must be an array of strings");
  const read = [...keys];
  for (const one of read) checkKey(one);
  checkNumberOfKeys(read.map((one) => one.normalize()));
  return read;
}

/**
 * Returns the part of an error's context that says what was to be locked.
 * @param {LockPlan} plan
 */
export function subjectOf({ key, keys }) {
  return keys === undefined ? { key } : { keys };
}

/**
 * @param {any} config
 * @param {any} acquisition
 * @param {boolean} unlimited whether a wait has no limit unless one is given
 * @returns {Float64Array}
 */
function readLimits({ maxHoldMs = Infinity, minHoldMs = Infinity }, acquisition, unlimited) {
  if (acquisition === undefined) {
    if (!unlimited && maxHoldMs === Infinity && minHoldMs === Infinity) return DEFAULT_LIMITS;
    acquisition = {};
  }
  if (typeof acquisition !== "object" || acquisition === null) {
    throw invalidArgument("acquisition must be an object");
  }
  refuseNearMisses(acquisition, ACQUISITION_FIELDS, "acquisition.");
  const {
    // If only timeoutMs is given, only time limits the wait: a caller that asks for ten minutes gets them.
    maxRetries = unlimited || acquisition.timeoutMs !== undefined
      ? Infinity
      : LOCK_DEFAULTS.maxRetries,
    retryDelayMs = LOCK_DEFAULTS.retryDelayMs,
    maxDelayMs = unlimited ? LEAD_MAX_DELAY_MS : Infinity,
    timeoutMs = unlimited ? Infinity : LOCK_DEFAULTS.timeoutMs,
    backoff = LOCK_DEFAULTS.backoff,
    jitter = LOCK_DEFAULTS.jitter,
  } = acquisition;
  if (!(Number.isInteger(maxRetries) || maxRetries === Infinity) || maxRetries < 0) {
    throw invalidArgument("acquisition.maxRetries must be a non-negative integer or Infinity");
  }
  if (!Number.isFinite(retryDelayMs) || retryDelayMs < 0) {
    throw invalidArgument("acquisition.retryDelayMs must be a non-negative number (milliseconds)");
  }
  checkDuration("acquisition.maxDelayMs", maxDelayMs);
  checkDuration("acquisition.timeoutMs", timeoutMs);
  checkDuration("maxHoldMs", maxHoldMs);
  checkDuration("minHoldMs", minHoldMs);
  if (maxHoldMs === 0) throw invalidArgument("maxHoldMs must be greater than 0");
  if (backoff !== "exponential" && backoff !== "fixed") {
    throw invalidArgument('acquisition.backoff must be "exponential" or "fixed"');
  }
  if (typeof jitter !== "string" || !Object.hasOwn(JITTER, jitter)) {
    throw invalidArgument('acquisition.jitter must be "equal", "full" or "none"');
  }
  return Float64Array.of(
    maxRetries,
    retryDelayMs,
    backoff === "exponential" ? 1 : 0,
    JITTER[/** @type {keyof typeof JITTER} */ (jitter)],
    timeoutMs,
    maxDelayMs,
    maxHoldMs,
    minHoldMs,
    EXCLUSIVE,
  );
}

/**
 * @param {Float64Array} limits
 * @param {number} sharing
 */
function withSharing(limits, sharing) {
  const shared = limits.slice();
  shared[limits.length - 1] = sharing;
  return shared;
}

/**
 * Throws if the config is something else that people pass by mistake.
 * @param {unknown} config
 * @param {string} call
 */
function refuseMistakes(config, call) {
  if (config === undefined || config === null) return;
  const { what, remedy } = isBackend(config)
    ? { what: "a backend", remedy: "the config comes after it" }
    : (recognize(config) ?? { what: "", remedy: "" });
  if (what === "") return;
  throw invalidArgument(`${KEY_NOT_STRING}. ${call} got ${what} in place of its config: ${remedy}`);
}

/** The longest delay between two attempts of lead(), for stores without notifications. */
const LEAD_MAX_DELAY_MS = 1000;

const EXCLUSIVE = 0;
const SHARED = /** @type {const} */ ("shared");

/** The limits of calls without limits of their own. They share one object, which is never changed. */
const DEFAULT_LIMITS = readLimits({}, {}, false);

/**
 * @param {string} name
 * @param {unknown} value
 * @param {string} type
 */
function checkType(name, value, type) {
  if (value === undefined || typeof value === type) return;
  const what = { boolean: "true or false", function: "a function", string: "a string" }[type];
  throw invalidArgument(`${name} must be ${what}`);
}

/**
 * @param {string} name
 * @param {unknown} ms
 */
function checkDuration(name, ms) {
  if (!(typeof ms === "number" && ms >= 0)) {
    throw invalidArgument(`${name} must be a non-negative number (milliseconds)`);
  }
}

/**
 * Refuses misspelt fields, which would silently do nothing. Other unknown fields are allowed.
 * @param {object} fields
 * @param {string[]} known
 * @param {string} path
 */
function refuseNearMisses(fields, known, path) {
  for (const name in fields) {
    if (known.includes(name)) continue;
    const meant = nearMiss(name, known);
    if (meant !== undefined) {
      throw invalidArgument(`Unknown option "${path}${name}": did you mean "${path}${meant}"?`);
    }
  }
}

/**
 * Throws if one of the plan's two signals is aborted, or is not a signal.
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
  return aborted(message, signal, subjectOf(plan));
}
