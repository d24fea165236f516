// For people who write a backend: what a release or extend found, and what a lookup shows.

import type { BackendCapabilities } from "./backend.js";
import type { LockInfo, RawLockInfo } from "./results.js";
import type { FailureReason } from "./telemetry.js";

/**
 * The property that tells telemetry why a release or extend found no lock: `{ reason }`.
 *
 * @example
 * return { ok: false, [FAILURE_REASON]: { reason: "expired" } };
 */
export const FAILURE_REASON: unique symbol;

/** Why a release or extend found no lock. */
export type MutationReason = FailureReason;

/** What a release or extend found in the store. */
export type MutationCondition =
  | "succeeded"
  /** The lock was found, but it had expired. */
  | "observable-expired"
  | "never-existed"
  | "cleaned-up-after-expiry"
  /** The key is locked under another lockId. */
  | "ownership-mismatch"
  | "ambiguous-unknown";

/** The result of a release or extend, with the reason if it failed. */
export type MutationResult = { ok: true } | { ok: false; reason: MutationReason };

/** What a Firestore transaction found. */
export interface FirestoreConditions {
  documentExists: boolean;
  ownershipValid: boolean;
  isLive: boolean;
}

/** What a backend observed: the code of a Redis script, or Firestore's conditions. */
export type BackendObservation = number | FirestoreConditions;

/** Translates the code of a release or extend script: 1, 0, -1 or -2. */
export function mapRedisScriptResult(code: number): MutationCondition;

/** Returns the first condition that fails: existence, then ownership, then liveness. */
export function mapFirestoreConditions(conditions: FirestoreConditions): MutationCondition;

/** Calls mapRedisScriptResult for a number and mapFirestoreConditions for an object. */
export function mapBackendObservation(observation: BackendObservation): MutationCondition;

/**
 * Turns a condition into a result: "succeeded" is `ok`, "observable-expired" fails with the reason
 * "expired", and everything else fails with "not-found".
 *
 * @example
 * mapToMutationResult(mapRedisScriptResult(-2)); // { ok: false, reason: "expired" }
 */
export function mapToMutationResult(condition: MutationCondition): MutationResult;

/** Returns what is safe to show of a lock: hashes instead of its key and lockId. */
export function sanitizeLockInfo<C extends BackendCapabilities>(
  raw: RawLockInfo,
  capabilities: C,
): LockInfo<C>;

/**
 * Attaches the raw key and lockId, which only getByKeyRaw, getByIdRaw and lookupDebug return. They
 * are not enumerable and are not printed. Returns `info`.
 *
 * @example
 * return attachRawData(sanitizeLockInfo(stored, capabilities), stored);
 */
export function attachRawData<T extends object>(info: T, raw: { key: string; lockId: string }): T;
