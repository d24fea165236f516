// How many holders may have a key at a time.

import { invalidArgument } from "./errors.js";

/** The highest `concurrency`. */
const MAX_CONCURRENCY = 1000;

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

/** @param {unknown} concurrency */
function checkConcurrency(concurrency) {
  const isValid = Number.isInteger(concurrency) && /** @type {number} */ (concurrency) >= 1;
  if (!isValid || /** @type {number} */ (concurrency) > MAX_CONCURRENCY) {
    throw invalidArgument(`concurrency must be an integer from 1 to ${MAX_CONCURRENCY}`);
  }
}
