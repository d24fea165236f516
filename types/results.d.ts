// What operations return.

import type { BackendCapabilities } from "./backend.js";
import type { FAILURE_REASON } from "./custom.js";
import type { FailureReason } from "./telemetry.js";

/** 15 digits. Compare fences as strings: `a > b`. */
export type Fence = string;

/** 24 hex characters that stand for a key or a lockId. */
export type HashId = string;

/** A lock that was acquired, as plain data. The fence is there where the backend has fences. */
export type AcquireOk<C extends BackendCapabilities = BackendCapabilities> = {
  ok: true;
  /** 22 characters that prove the ownership. Only for release and extend: not for logs. */
  lockId: string;
  /** By the clock of the backend's `timeAuthority`, in milliseconds of Unix time. */
  expiresAtMs: number;
} & (C["supportsFencing"] extends true ? { fence: Fence } : {});

/** Somebody else holds the key. */
export type AcquireLocked = { ok: false; reason: "locked" };

/** The outcome of an acquire as plain data: all that a custom backend needs to return. */
export type AcquireResult<C extends BackendCapabilities = BackendCapabilities> =
  AcquireOk<C> | AcquireLocked;

/**
 * The methods do not depend on `this`: a result may be taken apart or spread. (A spread copies all
 * but `signal`, which is made when it is asked for.)
 */
export interface DisposableLockHandle {
  /** At most one release reaches the backend: a second call returns `{ ok: false }`. */
  release: (signal?: AbortSignal) => Promise<ReleaseResult>;
  /** Sets the expiry to `ttlMs` from now. */
  extend: (ttlMs: number, signal?: AbortSignal) => Promise<ExtendResult>;
  /** Releases unless that was done. Never throws: failures go to `onReleaseError`. */
  [Symbol.asyncDispose]: () => Promise<void>;
}

/** What tells whether a lock is still held. It costs nothing until it is used. */
export interface LockWatch {
  /**
   * Aborts with a LockError "LockLost" when the lock is lost or its time is over; where there is a
   * config, also when its signal is aborted, with that signal's reason.
   */
  readonly signal: AbortSignal;
  /**
   * Whether the lock is surely ours, now and for `forMs` more milliseconds (default 0). The time
   * that the machine was suspended counts.
   *
   * @example
   * if (!held.isHeld(2_000)) await held.extend(30_000);
   */
  isHeld: (forMs?: number) => boolean;
  /** Throws a LockError "LockLost" unless the lock is still held. */
  throwIfLost: () => void;
}

/** What the acquire of a backend of this package returns beside its data. */
export interface LockHandle extends DisposableLockHandle, LockWatch {}

/** A lock that was acquired, with a handle: for `await using`. */
export type AsyncLock<C extends BackendCapabilities = BackendCapabilities> = AcquireOk<C> &
  DisposableLockHandle;

/** What a backend's acquire returns. The methods of a refused one do nothing. */
export type DecoratedAcquireResult<C extends BackendCapabilities = BackendCapabilities> =
  AsyncLock<C> | (AcquireLocked & DisposableLockHandle);

/** What the acquire of a backend of this package returns. */
export type ManagedAcquireResult<C extends BackendCapabilities = BackendCapabilities> =
  (AcquireOk<C> & LockHandle) | (AcquireLocked & DisposableLockHandle);

/** `ok: false`: the lock was not there any more. */
export type ReleaseResult = { ok: true } | MutationFailure;

/** `ok: false`: the lock was not there any more. */
export type ExtendResult = { ok: true; expiresAtMs: number } | MutationFailure;

/** A failed release or extend, which may tell telemetry why. */
export type MutationFailure = {
  ok: false;
  [FAILURE_REASON]?: { reason: FailureReason } | undefined;
};

/** What may be shown of a lock: hashes in place of its key and lockId. */
export type LockInfo<C extends BackendCapabilities = BackendCapabilities> = {
  keyHash: HashId;
  lockIdHash: HashId;
  /** In milliseconds of Unix time. */
  expiresAtMs: number;
  /** In milliseconds of Unix time. */
  acquiredAtMs: number;
} & (C["supportsFencing"] extends true ? { fence: Fence } : {});

/** With the raw key and lockId: for debugging, not for logs. */
export type LockInfoDebug<C extends BackendCapabilities = BackendCapabilities> = LockInfo<C> & {
  key: string;
  lockId: string;
};

/** What a backend knows of a lock. */
export interface RawLockInfo {
  key: string;
  lockId: string;
  expiresAtMs: number;
  acquiredAtMs: number;
  fence?: Fence;
}
