// Constants.

/** The longest key, in bytes of UTF-8 after NFC normalization. */
export const MAX_KEY_LENGTH_BYTES: 512;

/** What the operations of a backend use where nothing is said. */
export const BACKEND_DEFAULTS: { readonly ttlMs: 30000 };

/** What the wait of lock() and hold() uses where nothing is said. */
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

/** What a storage key leaves free for keys derived from it, in bytes. */
export const RESERVE_BYTES: {
  readonly REDIS: 26;
  readonly POSTGRES: 0;
  readonly FIRESTORE: 0;
};

/** No fence above MAX is given out; above WARN each acquire warns. */
export const FENCE_THRESHOLDS: {
  readonly MAX: "900000000000000";
  readonly WARN: "090000000000000";
};

/** How far clocks may differ before a lock is taken for expired, in milliseconds. */
export const TIME_TOLERANCE_MS: 1000;
