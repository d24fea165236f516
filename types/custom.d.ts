// For those who write a backend: what a release or extend found, and what a lookup shows.

import type { BackendCapabilities } from "./backend.js";
import type { LockInfo, RawLockInfo } from "./results.js";
import type { FailureReason } from "./telemetry.js";

/**
 * Under this symbol a failed release or extend result says why, for telemetry: `{ reason }`.
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
  /** The lock was there, and its time over. */
  | "observable-expired"
  | "never-existed"
  | "cleaned-up-after-expiry"
  /** The key is locked with another lockId. */
  | "ownership-mismatch"
  | "ambiguous-unknown";

/** What a release or extend comes to. */
export type MutationResult = { ok: true } | { ok: false; reason: MutationReason };

/** What a Firestore transaction found. */
export interface FirestoreConditions {
  documentExists: boolean;
  ownershipValid: boolean;
  isLive: boolean;
}

/** What a backend can observe: the code of a Redis script, or Firestore's conditions. */
export type BackendObservation = number | FirestoreConditions;

/** The code of a release or extend script: 1, 0, -1 or -2. */
export function mapRedisScriptResult(code: number): MutationCondition;

/** The first condition that fails: existence, ownership, liveness. */
export function mapFirestoreConditions(conditions: FirestoreConditions): MutationCondition;

/** As mapRedisScriptResult for a number, as mapFirestoreConditions for an object. */
export function mapBackendObservation(observation: BackendObservation): MutationCondition;

/**
 * "succeeded" is `ok`, "observable-expired" has the reason "expired", every other "not-found".
 *
 * @example
 * mapToMutationResult(mapRedisScriptResult(-2)); // { ok: false, reason: "expired" }
 */
export function mapToMutationResult(condition: MutationCondition): MutationResult;

/** Hashes in place of the key and the lockId. */
export function sanitizeLockInfo<C extends BackendCapabilities>(
  raw: RawLockInfo,
  capabilities: C,
): LockInfo<C>;

/**
 * Adds, out of sight, what getByKeyRaw and its kin return. Returns `info`.
 *
 * @example
 * return attachRawData(sanitizeLockInfo(stored, capabilities), stored);
 */
export function attachRawData<T extends object>(info: T, raw: { key: string; lockId: string }): T;
