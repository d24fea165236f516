// Small helpers for configuration and waiting, also for custom backends.

import { BACKEND_DEFAULTS, LOCK_DEFAULTS } from "./constants.js";
import { invalidArgument, unreadableOptions } from "./errors.js";

/** @import { AcquisitionOptions, BackendHooks } from "../../index.js" */

/** What setTimeout can wait at most; beyond it would fire at once. */
export const LONGEST_TIMER_MS = 0x7fff_ffff;

/**
 * @param {object} defaults
 * @param {object | undefined} given
 * @returns {any}
 */
function withDefaults(defaults, given) {
  /** @type {Record<string, unknown>} */
  const merged = { ...defaults };
  for (const [name, value] of Object.entries(given ?? {})) {
    if (value !== undefined) merged[name] = value;
  }
  return merged;
}

/**
 * The options of a backend operation with BACKEND_DEFAULTS where they are silent.
 * @param {object} [config]
 * @returns {any}
 */
export function mergeBackendConfig(config) {
  return withDefaults(BACKEND_DEFAULTS, config);
}

/**
 * The acquisition options of lock() with LOCK_DEFAULTS where they are silent.
 * @param {AcquisitionOptions} [acquisition]
 * @returns {any}
 */
export function mergeAcquisitionConfig(acquisition) {
  return withDefaults(LOCK_DEFAULTS, acquisition);
}

/**
 * Waits. The process stays alive meanwhile.
 * @param {number} ms
 * @returns {Promise<void>}
 */
export function delay(ms) {
  return new Promise((resolve) => {
    setTimeout(resolve, Math.min(ms, LONGEST_TIMER_MS));
  });
}

/**
 * The options that every backend has, checked.
 * @param {unknown} options
 * @returns {BackendHooks}
 */
export function readHooks(options) {
  if (options === undefined) return {};
  /** @type {any} */
  let onReleaseError, disposeTimeoutMs;
  try {
    ({ onReleaseError, disposeTimeoutMs } = /** @type {BackendHooks} */ (options));
  } catch (cause) {
    throw unreadableOptions("The backend", options, cause);
  }
  return checkHooks(onReleaseError, disposeTimeoutMs);
}

/**
 * `null`, and a timeout of 0, are as if they were not given.
 * @param {any} onReleaseError
 * @param {any} disposeTimeoutMs
 * @returns {BackendHooks}
 */
export function checkHooks(onReleaseError, disposeTimeoutMs) {
  const hooks = {
    onReleaseError: onReleaseError ?? undefined,
    disposeTimeoutMs: disposeTimeoutMs === 0 ? undefined : (disposeTimeoutMs ?? undefined),
  };
  if (hooks.onReleaseError !== undefined && typeof hooks.onReleaseError !== "function") {
    throw invalidArgument("onReleaseError must be a function");
  }
  const ms = hooks.disposeTimeoutMs;
  if (ms !== undefined && !(typeof ms === "number" && ms > 0)) {
    throw invalidArgument("disposeTimeoutMs must be a positive number (milliseconds)");
  }
  return hooks;
}
