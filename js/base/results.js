// Results of mutations and lookups, and the mappings a custom backend needs to make them.

import { FAILURE_REASON, RAW_DATA } from "./constants.js";
import { invalidArgument } from "./errors.js";
import { hashKey } from "./keys.js";

/** @import { BackendCapabilities, BackendObservation, FailureReason, FirestoreConditions, RawLockInfo } from "../../index.js" */

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
 * The reason that events may give for what a backend observed; none when it succeeded or does
 * not know.
 * @param {BackendObservation} observation
 * @returns {FailureReason | undefined}
 */
export function mapBackendObservation(observation) {
  switch (observation) {
    case "succeeded":
    case "unknown":
      return undefined;
    case "expired":
      return "expired";
    case "not-found":
    // Somebody else's lock is there: to the caller, its own is gone.
    case "mismatch":
      return "not-found";
    default:
      throw invalidArgument(
        "The observation must be one of: succeeded, expired, not-found, mismatch, unknown",
      );
  }
}

/**
 * The public result of a release or extend. With `expiresAtMs` a success is that of an extend.
 * @param {BackendObservation} observation
 * @param {number} [expiresAtMs]
 * @returns {any}
 */
export function mapToMutationResult(observation, expiresAtMs) {
  const reason = mapBackendObservation(observation);
  if (observation !== "succeeded") return failure(reason);
  return expiresAtMs === undefined ? { ok: true } : { ok: true, expiresAtMs };
}

/**
 * What the release and extend scripts of the Redis backend returned: a code, or
 * `[1, expiresAtMs]`.
 * @param {unknown} result
 * @returns {BackendObservation}
 */
export function mapRedisScriptResult(result) {
  switch (Number(Array.isArray(result) ? result[0] : result)) {
    case 1:
      return "succeeded";
    case 0:
      return "mismatch";
    case -1:
      return "not-found";
    case -2:
      return "expired";
    default:
      return "unknown";
  }
}

/**
 * What a Firestore transaction found. Ownership comes before liveness: an expired lock of
 * somebody else is not ours.
 * @param {FirestoreConditions} conditions
 * @returns {BackendObservation}
 */
export function mapFirestoreConditions({ documentExists, ownershipValid, isLive }) {
  if (!documentExists) return "not-found";
  if (!ownershipValid) return "mismatch";
  return isLive ? "succeeded" : "expired";
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
