// Names for what a release or an extension found in the store. Custom backends use them.

/** @import { FirestoreConditions, MutationCondition, MutationResult } from "../../index.js" */

/** @type {Map<unknown, MutationCondition>} */
const REDIS_CODES = new Map([
  [1, "succeeded"],
  [0, "ownership-mismatch"],
  [-1, "never-existed"],
  [-2, "observable-expired"],
]);

/**
 * Translates the code that the release and extend scripts of the Redis backend return.
 * @param {number} code
 * @returns {MutationCondition}
 */
export function mapRedisScriptResult(code) {
  return REDIS_CODES.get(code) ?? "ambiguous-unknown";
}

/**
 * Translates what a Firestore transaction found. Ownership is checked before liveness, because an
 * expired lock of somebody else is not ours.
 * @param {FirestoreConditions} conditions
 * @returns {MutationCondition}
 */
export function mapFirestoreConditions({ documentExists, ownershipValid, isLive }) {
  if (!documentExists) return "never-existed";
  if (!ownershipValid) return "ownership-mismatch";
  return isLive ? "succeeded" : "observable-expired";
}

/**
 * @param {number | FirestoreConditions} observation
 * @returns {MutationCondition}
 */
export function mapBackendObservation(observation) {
  return typeof observation === "object" && observation !== null
    ? mapFirestoreConditions(observation)
    : mapRedisScriptResult(observation);
}

/**
 * Converts a condition to a result. For the caller, everything but success and expiry means that its lock
 * does not exist.
 * @param {MutationCondition} condition
 * @returns {MutationResult}
 */
export function mapToMutationResult(condition) {
  if (condition === "succeeded") return { ok: true };
  return { ok: false, reason: condition === "observable-expired" ? "expired" : "not-found" };
}
