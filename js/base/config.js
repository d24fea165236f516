// Small helpers for configuration and waiting, also for custom backends.

import { BACKEND_DEFAULTS, LOCK_DEFAULTS } from "./constants.js";
import { invalidArgument, unreadableOptions } from "./errors.js";

/** @import { AcquisitionOptions, BackendHooks } from "../../index.js" */

/** The longest delay of setTimeout. A timer with a longer one fires at once. */
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
 * Fills in BACKEND_DEFAULTS for options of a backend operation that are undefined.
 * @param {object} [config]
 * @returns {any}
 */
export function mergeBackendConfig(config) {
  return withDefaults(BACKEND_DEFAULTS, config);
}

/**
 * Fills in LOCK_DEFAULTS for acquisition options of lock() that are undefined.
 * @param {AcquisitionOptions} [acquisition]
 * @returns {any}
 */
export function mergeAcquisitionConfig(acquisition) {
  return withDefaults(LOCK_DEFAULTS, acquisition);
}

/**
 * Waits for the given number of milliseconds. The process stays alive in the meantime.
 * @param {number} ms
 * @returns {Promise<void>}
 */
export function delay(ms) {
  return new Promise((resolve) => {
    setTimeout(resolve, Math.min(ms, LONGEST_TIMER_MS));
  });
}

/**
 * Returns the URL of the default backend. `sqlite:` means SQLite with its default file.
 * @returns {string}
 */
export function defaultUrl() {
  return process.env.SYNCGUARD_URL || "sqlite:";
}

/**
 * Reads and checks the options that every backend has.
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
 * Reads the label that is stored with each lock. The native side checks its length and characters.
 * @param {any} options
 * @returns {string | undefined}
 */
export function readHolderLabel(options) {
  const label = options?.holderLabel;
  if (label === undefined) return undefined;
  if (typeof label !== "string" || /\p{Surrogate}/u.test(label)) {
    throw invalidArgument("holderLabel must be a string of well-formed Unicode");
  }
  return label;
}

/**
 * Reads whether locks that are still held are released when the process ends.
 * @param {any} options
 * @returns {boolean}
 */
export function readReleaseOnExit(options) {
  const { releaseOnExit = true } = options ?? {};
  if (typeof releaseOnExit !== "boolean") {
    throw invalidArgument("releaseOnExit must be true or false");
  }
  return releaseOnExit;
}

/**
 * Checks the options about disposal. `null` and a timeout of 0 count as not given.
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
