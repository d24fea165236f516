// The options `concurrency` and `mode`, which say how many holders a key may have at a time.

import { invalidArgument } from "./errors.js";

/** The highest `concurrency`. */
const MAX_CONCURRENCY = 1000;

/** The largest number of keys that are locked together. */
const MAX_KEYS = 32;

/**
 * Throws unless this many keys can be locked together. Equal keys count once.
 * @param {string[]} keys normalized
 */
export function checkNumberOfKeys(keys) {
  const count = new Set(keys).size;
  if (count < 1 || count > MAX_KEYS) {
    throw invalidArgument(`keys must contain 1 to ${MAX_KEYS} keys; it contains ${count}`);
  }
}

/**
 * Reads `concurrency` and `mode`. Returns the limit as the engine takes it: 0 for an exclusive lock,
 * Infinity for readers without a limit.
 * @param {unknown} concurrency
 * @param {unknown} mode
 * @returns {number}
 */
export function readSharing(concurrency, mode) {
  if (concurrency === undefined && mode === undefined) return 0;
  if (mode !== undefined && mode !== "shared" && mode !== "exclusive") {
    throw invalidArgument('mode must be "exclusive" or "shared"');
  }
  const limit = concurrency ?? (mode === "shared" ? Infinity : 1);
  if (concurrency !== undefined) checkConcurrency(concurrency);
  if (mode === "exclusive" && limit !== 1) {
    throw invalidArgument(
      'mode "exclusive" allows one holder: leave out mode, or set it to "shared", to use concurrency',
    );
  }
  return mode === "shared" || limit !== 1 ? /** @type {number} */ (limit) : 0;
}

/**
 * How a lock has its key, for telemetry.
 * @typedef {object} Share
 * @property {"shared" | undefined} [mode] undefined if the lock is exclusive
 * @property {number | undefined} [slot] of a holder among those that share the key
 */

/**
 * Returns the mode of an acquire with these options. `undefined` if the options are wrong, which the
 * acquire itself reports.
 * @param {any} opts
 * @returns {Share["mode"]}
 */
export function modeOf(opts) {
  try {
    return readSharing(opts.concurrency, opts.mode) === 0 ? undefined : "shared";
  } catch {
    return undefined;
  }
}

/** @param {unknown} concurrency */
function checkConcurrency(concurrency) {
  const isValid = Number.isInteger(concurrency) && /** @type {number} */ (concurrency) >= 1;
  if (!isValid || /** @type {number} */ (concurrency) > MAX_CONCURRENCY) {
    throw invalidArgument(`concurrency must be an integer from 1 to ${MAX_CONCURRENCY}`);
  }
}
