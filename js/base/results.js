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

/** @typedef {"succeeded" | "expired" | "not-found" | "unknown"} Observation */

/**
 * What the scripts answered that a client's eval ran: a code, or `[1, expiresAtMs]`.
 * @param {unknown} reply
 * @returns {Observation}
 */
export function mapRedisScriptResult(reply) {
  switch (Number(Array.isArray(reply) ? reply[0] : reply)) {
    case 1:
      return "succeeded";
    case 0:
    case -1:
      return "not-found";
    case -2:
      return "expired";
    default:
      return "unknown";
  }
}

/**
 * The public result of a release or extend. With `expiresAtMs` a success is that of an extend.
 * @param {Observation} observation
 * @param {number} [expiresAtMs]
 * @returns {any}
 */
export function mapToMutationResult(observation, expiresAtMs) {
  if (observation !== "succeeded")
    return failure(observation === "unknown" ? undefined : observation);
  return expiresAtMs === undefined ? { ok: true } : { ok: true, expiresAtMs };
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
