// Errors.

/** What went wrong. A locked key is a result of acquire(), not an error. */
export type LockErrorCode =
  /** The backend cannot be reached or cannot work now. Retry later. */
  | "ServiceUnavailable"
  /** The backend refused the credentials, or they lack a privilege. */
  | "AuthFailed"
  /** An argument, an option or the setup is wrong. */
  | "InvalidArgument"
  /** The backend is overloaded. Retry later. */
  | "RateLimited"
  /** The backend did not reply in time. */
  | "NetworkTimeout"
  /** lock() or hold() did not get the lock within its time limit and retries. */
  | "AcquisitionTimeout"
  /** A signal was aborted. */
  | "Aborted"
  /** The lock expired or could not be extended while it was still in use. */
  | "LockLost"
  /** Anything unexpected. */
  | "Internal";

/** What an error is about. It is not printed with the error. */
export interface LockErrorContext {
  key?: string | undefined;
  lockId?: string | undefined;
  /** The error that caused this one; also `error.cause`. */
  cause?: unknown;
  /** Details, such as `sqlstate`, or the `attempts` of a wait that timed out. */
  [detail: string]: unknown;
}

/**
 * The error that every function of this package throws or rejects with. Its message never contains a
 * key, a lockId or a credential.
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
  /** Decide by the code: messages can change. */
  code: LockErrorCode;
  /** Not enumerable, so that printing the error does not print a key or lockId. */
  context: LockErrorContext | undefined;
  cause?: unknown;
}
