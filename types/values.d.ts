// Helpers that need no backend: keys, ids, fences, time, configuration.

import type { BackendCapabilities } from "./backend.js";
import type { AcquisitionOptions } from "./lock.js";
import type { AcquireResult, Fence, HashId } from "./results.js";

/**
 * Returns the key in NFC. Throws if it is empty, longer than MAX_KEY_LENGTH_BYTES, or not well-formed
 * Unicode (it contains half of a surrogate pair).
 */
export function normalizeAndValidateKey(key: string): string;

/** Throws unless the lockId consists of 22 base64url characters. */
export function validateLockId(lockId: string): void;

/** Returns a hash that stands for a key or a lockId in logs and events: a part of its SHA-256. */
export function hashKey(value: string): HashId;

/** Returns a new lockId: 128 random bits as 22 base64url characters. */
export function generateLockId(): string;

/**
 * Returns `prefix:key`, with a hash instead of the key if the result would exceed the limit. Throws if
 * even the hash does not fit.
 *
 * @example
 * makeStorageKey("app", "report", BACKEND_LIMITS.REDIS, RESERVE_BYTES.REDIS); // "app:report"
 */
export function makeStorageKey(
  prefix: string,
  key: string,
  limitBytes: number,
  reserveBytes: number,
): string;

/** Formats a counter as a fence of 15 digits. Throws if it is negative, fractional or too large. */
export function formatFence(value: number | bigint): Fence;

/** Logs a warning that a fence approaches its limit. Never prints the key. */
export function logFenceWarning(fence: Fence | number, key?: string): void;

/**
 * Returns whether a lock was acquired and has a fence, for code that accepts any backend. Backends of
 * this package always return fences.
 */
export function hasFence<
  C extends BackendCapabilities,
  R extends AcquireResult<C> = AcquireResult<C>,
>(result: R): result is R & { ok: true; fence: Fence };

/** Returns whether a lock is still live: `expiresAtMs > nowMs - toleranceMs`. */
export function isLive(expiresAtMs: number, nowMs: number, toleranceMs: number): boolean;

/** Converts the reply of Redis' TIME, `[seconds, microseconds]`, to Unix milliseconds. */
export function calculateRedisServerTimeMs(
  timeTuple: readonly [string | number, string | number],
): number;

/** Throws a LockError "Aborted" if the signal is aborted. */
export function checkAborted(signal?: AbortSignal): void;

/** Waits for so many milliseconds. */
export function delay(ms: number): Promise<void>;

/**
 * Fills in BACKEND_DEFAULTS for options that are undefined.
 *
 * @example
 * mergeBackendConfig({ key: "report", ttlMs: undefined }).ttlMs; // 30000
 */
export function mergeBackendConfig<T extends object = {}>(
  config?: T,
): Omit<T, "ttlMs"> & { ttlMs: number };

/** Fills in LOCK_DEFAULTS for options that are undefined. */
export function mergeAcquisitionConfig(acquisition?: AcquisitionOptions): Pick<
  AcquisitionOptions,
  "signal" | "maxDelayMs"
> & {
  maxRetries: number;
  retryDelayMs: number;
  timeoutMs: number;
  backoff: "exponential" | "fixed";
  jitter: "equal" | "full" | "none";
};
