// Keys, lockIds and hashes. Types are checked here; the rules are in the Rust core.

import { addon } from "./addon.js";
import { BAD_LOCK_ID, invalidArgument, KEY_NOT_STRING, unwrap } from "../base/errors.js";

const NOT_WELL_FORMED =
  "is not well-formed Unicode: it contains a lone surrogate. Check whether the text was cut inside a character";

/**
 * Throws unless the key is a string that can be stored. Half of a surrogate pair cannot be written in
 * UTF-8: all halves would become the same character, so that different keys became the same lock.
 * @param {unknown} key
 * @returns {asserts key is string}
 */
export function checkKey(key) {
  if (typeof key !== "string") throw invalidArgument(KEY_NOT_STRING);
  if (!isWellFormed(key)) throw invalidArgument(`Key ${NOT_WELL_FORMED}`);
}

/** @param {string} text */
function isWellFormed(text) {
  // ES2024: every supported runtime has it, but the types that we compile with do not.
  return /** @type {any} */ (text).isWellFormed();
}

/**
 * @param {string} key
 * @returns {string} the key in NFC
 */
export function normalizeAndValidateKey(key) {
  checkKey(key);
  return unwrap(addon().normalizeKey(key));
}

/** @param {string} lockId */
export function validateLockId(lockId) {
  if (typeof lockId !== "string") throw invalidArgument(BAD_LOCK_ID);
  unwrap(addon().checkLockId(lockId));
}

/**
 * Returns 24 hex characters that stand for a key or a lockId in logs and events.
 * @param {string} value
 * @returns {string}
 */
export function hashKey(value) {
  if (typeof value === "string" && !isWellFormed(value)) {
    throw invalidArgument(`The value ${NOT_WELL_FORMED}`);
  }
  return hashOf(value);
}

/**
 * Like hashKey(), but accepts any string: for telemetry, which must not fail.
 * @param {string} value
 * @returns {string}
 */
export function hashOf(value) {
  if (typeof value !== "string") throw invalidArgument("hashKey() needs a string");
  return addon().hashKey(value);
}

/** @returns {string} a new lockId: 16 random bytes as 22 base64url characters */
export function generateLockId() {
  return addon().generateLockId();
}

/**
 * @param {string} prefix
 * @param {string} key
 * @param {number} limitBytes
 * @param {number} reserveBytes
 * @returns {string}
 */
export function makeStorageKey(prefix, key, limitBytes, reserveBytes) {
  if (typeof prefix !== "string") throw invalidArgument("The key prefix must be a string");
  if (!isWellFormed(prefix)) throw invalidArgument(`The key prefix ${NOT_WELL_FORMED}`);
  checkKey(key);
  checkBytes("limitBytes", limitBytes);
  checkBytes("reserveBytes", reserveBytes);
  return unwrap(addon().makeStorageKey(prefix, key, limitBytes, reserveBytes));
}

/**
 * @param {string} name
 * @param {number} value
 */
function checkBytes(name, value) {
  // The native side takes 32 bits; no store has a limit near that.
  if (!Number.isInteger(value) || value < 0 || value > 0xffff_ffff) {
    throw invalidArgument(`${name} must be a non-negative integer`);
  }
}
