// Public constants. The Rust core has copies of those that it needs: a test compares them.

/** The longest key, in bytes of UTF-8 after NFC normalization. */
export const MAX_KEY_LENGTH_BYTES = 512;

export const BACKEND_DEFAULTS = Object.freeze({ ttlMs: 30_000 });

export const LOCK_DEFAULTS = Object.freeze({
  maxRetries: 10,
  retryDelayMs: 100,
  timeoutMs: 5_000,
  backoff: /** @type {const} */ ("exponential"),
  jitter: /** @type {const} */ ("equal"),
});

/** The longest storage key of each backend, in bytes. */
export const BACKEND_LIMITS = Object.freeze({ REDIS: 1000, POSTGRES: 1700, FIRESTORE: 1500 });

/** How many bytes of a storage key are left free for keys that are derived from it. */
export const RESERVE_BYTES = Object.freeze({ REDIS: 26, POSTGRES: 0, FIRESTORE: 0 });

/** No fence above MAX is issued. Above WARN, each acquire logs a warning. */
export const FENCE_THRESHOLDS = Object.freeze({ MAX: "900000000000000", WARN: "090000000000000" });

export const TIME_TOLERANCE_MS = 1000;

/** The symbol under which a failed release or extend carries its reason for telemetry: `{ reason }`. */
export const FAILURE_REASON = Symbol.for("failureReason");

/** The symbol under which a lookup result carries the raw key and lockId. It is never enumerable. */
export const RAW_DATA = Symbol.for("syncguard.rawData");
