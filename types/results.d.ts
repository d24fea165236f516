// What operations return.

import type { BackendCapabilities, FencingCapabilities } from "./backend.js";
import type { FAILURE_REASON } from "./custom.js";
import type { FailureReason } from "./telemetry.js";

/** A fencing token of 15 digits. Compare fences as strings: `a > b`. */
export type Fence = string;

/** A hash of a key or a lockId: 24 hex characters, safe to log. */
export type HashId = string;

/** An acquired lock as plain data. It has a fence if the backend supports fencing. */
export type AcquireOk<C extends BackendCapabilities = FencingCapabilities> = {
  ok: true;
  /** Proves ownership: whoever knows it can release and extend the lock. 22 characters; never log it. */
  lockId: string;
  /** When the lock expires, in Unix milliseconds by the clock of the backend's `timeAuthority`. */
  expiresAtMs: number;
  /** The number of this holder if the key is shared: the smallest from 0 that no other holder has. */
  slot?: number | undefined;
} & (C["supportsFencing"] extends true ? { fence: Fence } : {});

/** Somebody else holds the key. */
export type AcquireLocked = { ok: false; reason: "locked" };

/** The outcome of an acquire as plain data. A backend of your own needs to return no more. */
export type AcquireResult<C extends BackendCapabilities = FencingCapabilities> =
  AcquireOk<C> | AcquireLocked;

/**
 * Methods of an acquired lock. They do not depend on `this`, so a result can be destructured or
 * spread. A spread does not copy `signal`, which is created on first access.
 */
export interface DisposableLockHandle {
  /** Releases the lock. At most one release reaches the backend: a second call returns `{ ok: false }`. */
  release: (signal?: AbortSignal) => Promise<ReleaseResult>;
  /** Moves the expiry to `ttlMs` from now. */
  extend: (ttlMs: number, signal?: AbortSignal) => Promise<ExtendResult>;
  /** Releases the lock unless it is released already. Never throws: failures go to `onReleaseError`. */
  [Symbol.asyncDispose]: () => Promise<void>;
}

/** Tells whether a lock is still held. Costs nothing until you use it. */
export interface LockWatch {
  /**
   * Aborts with a LockError "LockLost" when the lock is lost or expires. If the config has a signal,
   * it also aborts with that one, for the same reason.
   */
  readonly signal: AbortSignal;
  /**
   * Whether the lock is certainly held, now and for `forMs` more milliseconds (default 0). Time that
   * the machine was suspended counts.
   *
   * @example
   * if (!held.isHeld(2_000)) await held.extend(30_000);
   */
  isHeld: (forMs?: number) => boolean;
  /** Throws a LockError "LockLost" unless the lock is still held. */
  throwIfLost: () => void;
}

/** The methods that backends of this package add to an acquired lock. */
export interface LockHandle extends DisposableLockHandle, LockWatch {}

/** An acquired lock with the methods of a handle, for `await using`. */
export type AsyncLock<C extends BackendCapabilities = FencingCapabilities> = AcquireOk<C> &
  DisposableLockHandle;

/** The result of a backend's acquire. If it was refused, its methods do nothing. */
export type DecoratedAcquireResult<C extends BackendCapabilities = FencingCapabilities> =
  AsyncLock<C> | (AcquireLocked & DisposableLockHandle);

/** The result of acquire on a backend of this package. */
export type ManagedAcquireResult<C extends BackendCapabilities = FencingCapabilities> =
  (AcquireOk<C> & LockHandle) | (AcquireLocked & DisposableLockHandle);

/** The result of a release or extend. `ok: false` if the lock was no longer held. */
export type ReleaseResult = { ok: true } | MutationFailure;

/** The result of a release or extend. `ok: false` if the lock was no longer held. */
export type ExtendResult = { ok: true; expiresAtMs: number } | MutationFailure;

/** A release or extend that found no lock. It may carry the reason, for telemetry. */
export type MutationFailure = {
  ok: false;
  [FAILURE_REASON]?: { reason: FailureReason } | undefined;
};

/** What is safe to show of a lock: hashes instead of its key and lockId. */
export type LockInfo<C extends BackendCapabilities = FencingCapabilities> = {
  keyHash: HashId;
  lockIdHash: HashId;
  /** Unix time in milliseconds. */
  expiresAtMs: number;
  /** Unix time in milliseconds. */
  acquiredAtMs: number;
  /** "shared" if other holders may have the key at the same time. `listLocks` always says which. */
  mode?: "exclusive" | "shared" | undefined;
  /** The number of a shared holder: unique among those that hold the key at the same time. */
  slot?: number | undefined;
  /** How many holders share the key. A lookup by key describes the one that expires last. */
  holders?: number | undefined;
  /** The `holderLabel` of the holder's backend, if it has one. */
  holderLabel?: string | undefined;
} & (C["supportsFencing"] extends true ? { fence: Fence } : {});

/** A LockInfo with the raw key and lockId: for debugging, not for logs. */
export type LockInfoDebug<C extends BackendCapabilities = FencingCapabilities> = LockInfo<C> & {
  key: string;
  lockId: string;
};

/** What a backend stores about a lock. */
export interface RawLockInfo {
  key: string;
  lockId: string;
  expiresAtMs: number;
  acquiredAtMs: number;
  fence?: Fence;
  holderLabel?: string | undefined;
  mode?: "exclusive" | "shared" | undefined;
  slot?: number | undefined;
  holders?: number | undefined;
}
