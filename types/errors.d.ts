// Errors.

/** What went wrong. That a key is locked is a result, not an error. */
export type LockErrorCode =
  /** The backend cannot be reached, or cannot work now. */
  | "ServiceUnavailable"
  /** The backend refused the credentials, or what they may do. */
  | "AuthFailed"
  /** An argument, an option or the set-up is wrong. */
  | "InvalidArgument"
  /** The backend has too much to do. */
  | "RateLimited"
  /** A backend did not answer in time. */
  | "NetworkTimeout"
  /** lock() or hold() did not get the lock within its time and retries. */
  | "AcquisitionTimeout"
  /** A signal was aborted. */
  | "Aborted"
  /** The lock's time passed, or it could not be extended, while it was still needed. */
  | "LockLost"
  /** Anything unexpected. */
  | "Internal";

/** What an error is about. Never printed with it. */
export interface LockErrorContext {
  key?: string | undefined;
  lockId?: string | undefined;
  /** The error that led to this one; also `error.cause`. */
  cause?: unknown;
  /** Facts, such as `sqlstate`, or the `attempts` that a wait in vain made. */
  [detail: string]: unknown;
}

/**
 * Every rejection of this package. Messages never contain a key, a lockId or a credential.
 *
 * @example
 * try {
 *   await lock(work, { key: "report" });
 * } catch (error) {
 *   if (error instanceof LockError && error.code === "AcquisitionTimeout") return; // busy
 *   throw error;
 * }
 */
export class LockError extends Error {
  constructor(code: LockErrorCode, message?: string, context?: LockErrorContext);
  /** What to decide by: messages may change. */
  code: LockErrorCode;
  /** Not enumerable, so that printing the error does not print a key or lockId. */
  context: LockErrorContext | undefined;
  cause?: unknown;
}
