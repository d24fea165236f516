// Constants.

/** The longest key, in bytes of UTF-8 after NFC normalization. */
export const MAX_KEY_LENGTH_BYTES: 512;

/** The defaults of a backend's operations. */
export const BACKEND_DEFAULTS: { readonly ttlMs: 30000 };

/** The defaults of `acquisition`: how lock() and hold() wait. */
export const LOCK_DEFAULTS: {
  readonly maxRetries: 10;
  readonly retryDelayMs: 100;
  readonly timeoutMs: 5000;
  readonly backoff: "exponential";
  readonly jitter: "equal";
};

/** The longest storage key of each backend, in bytes. */
export const BACKEND_LIMITS: {
  readonly REDIS: 1000;
  readonly POSTGRES: 1700;
  readonly FIRESTORE: 1500;
};

/** Bytes that a storage key leaves free for the keys derived from it. */
export const RESERVE_BYTES: {
  readonly REDIS: 26;
  readonly POSTGRES: 0;
  readonly FIRESTORE: 0;
};

/** No fence above MAX is ever granted. Above WARN, each acquire logs a warning. */
export const FENCE_THRESHOLDS: {
  readonly MAX: "900000000000000";
  readonly WARN: "090000000000000";
};

/** How long a lock counts as held after it has expired, in milliseconds, because clocks differ. */
export const TIME_TOLERANCE_MS: 1000;
