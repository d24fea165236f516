// Results of mutations and lookups.

import { FAILURE_REASON, RAW_DATA } from "./constants.js";
import { hashKey } from "./keys.js";

/** @import { BackendCapabilities, FailureReason, RawLockInfo } from "../../index.js" */

/**
 * A failed release or extend that tells telemetry, and nobody else, why.
 * @param {FailureReason} [reason]
 * @returns {{ ok: false }}
 */
export function failure(reason) {
  /** @type {{ ok: false }} */
  const result = { ok: false };
  if (reason !== undefined) {
    Object.defineProperty(result, FAILURE_REASON, { value: Object.freeze({ reason }) });
  }
  return result;
}

/**
 * What may be shown of a lock: hashes instead of its key and lockId.
 * @param {RawLockInfo} raw
 * @param {BackendCapabilities} capabilities
 * @returns {any}
 */
export function sanitizeLockInfo(raw, capabilities) {
  const info = {
    keyHash: hashKey(raw.key),
    lockIdHash: hashKey(raw.lockId),
    expiresAtMs: raw.expiresAtMs,
    acquiredAtMs: raw.acquiredAtMs,
  };
  return capabilities.supportsFencing ? { ...info, fence: raw.fence } : info;
}

/**
 * Adds the raw key and lockId where only `getByKeyRaw` and its kin look: printing or
 * serializing the info does not show them.
 * @template {object} T
 * @param {T} info
 * @param {{ key: string, lockId: string }} raw
 * @returns {T}
 */
export function attachRawData(info, { key, lockId }) {
  return Object.defineProperty(info, RAW_DATA, { value: { key, lockId }, configurable: true });
}
