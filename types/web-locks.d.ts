// syncguard/web-locks: the interface of `navigator.locks`, across processes and machines.

import type { BackendCapabilities, CloseOptions, CustomLockBackend } from "./backend.js";

/** Options of `createLockManager()`. */
export interface LockManagerOptions {
  /**
   * For how long the store keeps a lock whose process has died, in milliseconds. While a process lives,
   * it keeps its locks alive. Default 30,000.
   */
  ttlMs?: number | undefined;
}

/** Any number of shared locks can be held on a name, or one exclusive lock. */
export type LockMode = "exclusive" | "shared";

/** Options of `request()`. */
export interface LockOptions {
  /** Default "exclusive". */
  mode?: LockMode | undefined;
  /** Whether the callback is called with `null`, without waiting, if the lock is not available. */
  ifAvailable?: boolean | undefined;
  /**
   * Whether locks that are held on this name, also by other processes, are ended at once. Their
   * requests reject with "AbortError".
   */
  steal?: boolean | undefined;
  /** Ends the wait: the request rejects with the signal's reason. */
  signal?: AbortSignal | undefined;
}

/** A lock that is held while the callback runs. */
export declare class Lock {
  private constructor();
  /** The name for which it was requested. */
  readonly name: string;
  /** The mode in which it is held. */
  readonly mode: LockMode;
}

/** The callback of `request()`. The lock is held until its promise is settled. */
export interface LockGrantedCallback<T> {
  (lock: Lock | null): T;
}

/** A lock that is held or requested. */
export interface LockInfo {
  /** The name of the lock. */
  name: string;
  mode: LockMode;
  /** The same for all requests of a lock manager. Another one for each lock of another process. */
  clientId: string;
}

/** What `query()` resolves with. */
export interface LockManagerSnapshot {
  /** Held locks: those of this process, then those of others. */
  held: LockInfo[];
  /** Requests of this process that wait. */
  pending: LockInfo[];
}

/** The interface of `navigator.locks`. */
export declare class LockManager {
  private constructor();
  /**
   * Waits for the lock, calls the callback while it is held, and settles as the callback does. Rejects
   * with an "AbortError" if the lock is stolen or lost in the meantime.
   *
   * @example
   * await locks.request("invoice:7", async () => {
   *   await sendInvoice(7);
   * });
   */
  request<T>(name: string, callback: (lock: Lock) => T): Promise<Awaited<T>>;
  /** With options: see `LockOptions`. With `ifAvailable`, the callback can get `null`. */
  request<T>(
    name: string,
    options: LockOptions & { ifAvailable?: false | undefined },
    callback: (lock: Lock) => T,
  ): Promise<Awaited<T>>;
  request<T>(
    name: string,
    options: LockOptions,
    callback: LockGrantedCallback<T>,
  ): Promise<Awaited<T>>;
  /** Lists the locks that are held and the requests that wait: for diagnostics, never as a guard. */
  query(): Promise<LockManagerSnapshot>;
}

/** What `createLockManager()` returns: a `LockManager` that can be closed. */
export interface ClosableLockManager extends LockManager {
  /**
   * Rejects pending requests with "AbortError", and later ones with "InvalidStateError". A backend that
   * was opened for a URL is closed: callbacks that run have `timeoutMs` to end, by default 10 s. A backend
   * of your own stays open.
   */
  close: (options?: CloseOptions) => Promise<void>;
  [Symbol.asyncDispose]: () => Promise<void>;
}

/**
 * Returns an object with the interface of `navigator.locks`, whose locks exclude each other across
 * processes and machines. Without arguments it uses the environment variable SYNCGUARD_URL, or else the
 * host's SQLite file.
 *
 * @example
 * const locks = createLockManager("redis://cache.internal:6379");
 * await locks.request("report", async (lock) => {
 *   await writeReport();
 * });
 */
export function createLockManager(): ClosableLockManager;
export function createLockManager<C extends BackendCapabilities>(
  target: string | URL | CustomLockBackend<C>,
  options?: LockManagerOptions,
): ClosableLockManager;
