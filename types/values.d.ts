// Keys, ids, fences, time, configuration: helpers without a backend.

import type { BackendCapabilities } from "./backend.js";
import type { AcquisitionOptions } from "./lock.js";
import type { AcquireResult, Fence, HashId } from "./results.js";

/** The key in NFC; throws when it is empty or longer than MAX_KEY_LENGTH_BYTES. */
export function normalizeAndValidateKey(key: string): string;

/** Throws unless it is 22 base64url characters. */
export function validateLockId(lockId: string): void;

/** What stands for a key or a lockId in logs and events: a part of its SHA-256. */
export function hashKey(value: string): HashId;

/** A new lockId: 128 random bits, as 22 base64url characters. */
export function generateLockId(): string;

/**
 * `prefix:key`, or a hash in place of the key when that is longer than the limit. Throws when not
 * even that fits.
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

/** A counter as a fence: 15 digits. Throws when it is negative, too large or no whole number. */
export function formatFence(value: number | bigint): Fence;

/** Warns that a fence comes near its limit. Never prints the key. */
export function logFenceWarning(fence: Fence | number, key?: string): void;

/**
 * Whether a lock was acquired and has a fence: for code that takes any backend. Those of this
 * package always have one.
 */
export function hasFence<
  C extends BackendCapabilities,
  R extends AcquireResult<C> = AcquireResult<C>,
>(result: R): result is R & { ok: true; fence: Fence };

/** The one rule of liveness: `expiresAtMs > nowMs - toleranceMs`. */
export function isLive(expiresAtMs: number, nowMs: number, toleranceMs: number): boolean;

/** Milliseconds from the reply of Redis' TIME: `[seconds, microseconds]`. */
export function calculateRedisServerTimeMs(
  timeTuple: readonly [string | number, string | number],
): number;

/** Throws a LockError "Aborted" when the signal is aborted. */
export function checkAborted(signal?: AbortSignal): void;

/** Waits. */
export function delay(ms: number): Promise<void>;

/**
 * The options with BACKEND_DEFAULTS for what is undefined.
 *
 * @example
 * mergeBackendConfig({ key: "report", ttlMs: undefined }).ttlMs; // 30000
 */
export function mergeBackendConfig<T extends object = {}>(
  config?: T,
): Omit<T, "ttlMs"> & { ttlMs: number };

/** The options with LOCK_DEFAULTS for what is undefined. */
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
