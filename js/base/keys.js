// Keys, lock ids and hashes: types are checked here, the rules are in the Rust core.

import { addon } from "../native/addon.js";
import { BAD_LOCK_ID, invalidArgument, KEY_NOT_STRING, unwrap } from "./errors.js";

/**
 * @param {string} key
 * @returns {string} the key in NFC
 */
export function normalizeAndValidateKey(key) {
  if (typeof key !== "string") throw invalidArgument(KEY_NOT_STRING);
  return unwrap(addon().normalizeKey(key));
}

/** @param {string} lockId */
export function validateLockId(lockId) {
  if (typeof lockId !== "string") throw invalidArgument(BAD_LOCK_ID);
  unwrap(addon().checkLockId(lockId));
}

/**
 * 24 hex characters that stand for a key or a lockId in logs and events.
 * @param {string} value
 * @returns {string}
 */
export function hashKey(value) {
  if (typeof value !== "string") throw invalidArgument("hashKey() needs a string");
  return addon().hashKey(value);
}

/** @returns {string} a new lock id: 16 random bytes as 22 base64url characters */
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
  if (typeof key !== "string") throw invalidArgument(KEY_NOT_STRING);
  checkBytes("limitBytes", limitBytes);
  checkBytes("reserveBytes", reserveBytes);
  return unwrap(addon().makeStorageKey(prefix, key, limitBytes, reserveBytes));
}

/**
 * @param {string} name
 * @param {number} value
 */
function checkBytes(name, value) {
  // 32 bits are what the native side takes; no store comes near.
  if (!Number.isInteger(value) || value < 0 || value > 0xffff_ffff) {
    throw invalidArgument(`${name} must be a non-negative integer`);
  }
}
