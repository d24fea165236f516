// Fence tokens: 15 digits, so that comparing strings compares numbers.

import { FENCE_THRESHOLDS } from "./constants.js";
import { invalidArgument } from "./errors.js";

const DIGITS = 15;

/**
 * @param {number | bigint} value
 * @returns {string}
 */
export function formatFence(value) {
  if (typeof value !== "bigint" && !Number.isInteger(value)) {
    throw invalidArgument("Fence must be a whole number (a number or a bigint)");
  }
  if (value < 0) throw invalidArgument("Fence must be non-negative");
  // A bigint writes -0 and large numbers as plain digits.
  const digits = String(BigInt(value));
  if (digits.length > DIGITS) throw invalidArgument(`Fence exceeds ${DIGITS}-digit limit`);
  return digits.padStart(DIGITS, "0");
}

/**
 * @param {any} result
 * @returns {result is any}
 */
export function hasFence(result) {
  return Boolean(result?.ok && result.fence);
}

/**
 * Warns that a fence counter approaches its limit. The key is not printed; it is a parameter because
 * the specification's signature has it.
 * @param {string | number} fence
 * @param {string} [_key]
 */
export function logFenceWarning(fence, _key) {
  console.warn(
    `[SyncGuard] Fence counter approaching limit: ${fence} of ${FENCE_THRESHOLDS.MAX}. ` +
      "Move the resource to a new key before the limit: acquires beyond it fail.",
  );
}
