// Builds the results of releases, extensions and lookups.

import { FAILURE_REASON, RAW_DATA } from "../base/constants.js";
import { hashOf } from "./keys.js";

/** @import { BackendCapabilities, FailureReason, RawLockInfo } from "../../index.js" */

/**
 * Returns a failed release or extend that carries the reason for telemetry only.
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
 * Returns what is safe to show of a lock: hashes instead of its key and lockId.
 * @param {RawLockInfo} raw
 * @param {BackendCapabilities} capabilities
 * @returns {any}
 */
export function sanitizeLockInfo(raw, capabilities) {
  return {
    keyHash: hashOf(raw.key),
    lockIdHash: hashOf(raw.lockId),
    expiresAtMs: raw.expiresAtMs,
    acquiredAtMs: raw.acquiredAtMs,
    ...(capabilities.supportsFencing && { fence: raw.fence }),
    ...(raw.mode !== undefined && { mode: raw.mode }),
    ...(raw.slot !== undefined && { slot: raw.slot }),
    ...(raw.holders !== undefined && { holders: raw.holders }),
    // There is no such field if the holder has no label.
    ...(raw.holderLabel !== undefined && { holderLabel: raw.holderLabel }),
  };
}

/**
 * Attaches the raw key and lockId for `getByKeyRaw`, `getByIdRaw` and `lookupDebug`. Printing or
 * serializing the info does not show them.
 * @template {object} T
 * @param {T} info
 * @param {{ key: string, lockId: string }} raw
 * @returns {T}
 */
export function attachRawData(info, { key, lockId }) {
  return Object.defineProperty(info, RAW_DATA, { value: { key, lockId }, configurable: true });
}
