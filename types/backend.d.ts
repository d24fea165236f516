// Backends: what they can do, and what is asked of them.

import type {
  AcquireResult,
  DecoratedAcquireResult,
  ExtendResult,
  LockInfo,
  ManagedAcquireResult,
  ReleaseResult,
} from "./results.js";

/** What a backend can do, as data and in its type. */
export interface BackendCapabilities {
  /** Which backend it is. */
  backend?: string;
  /** Whether every acquire returns a fence. */
  supportsFencing: boolean;
  /** Whose clock decides whether a lock has expired. */
  timeAuthority: "server" | "client";
  /**
   * Whether who waits is told of a release by the store, where that allows it, or only asks again
   * and again. Not enumerable: it does not appear when the capabilities are compared or printed.
   */
  readonly waitsBy?: "notification" | "polling" | undefined;
}

/** The capabilities that all backends of this package share. */
export interface FencingCapabilities extends BackendCapabilities {
  backend: string;
  supportsFencing: true;
}

/** What an operation on a key is given. */
export type KeyOp = Readonly<{
  /** Up to 512 bytes of UTF-8; compared in Unicode NFC. */
  key: string;
  /** Ends the operation at once, with a LockError "Aborted". */
  signal?: AbortSignal | undefined;
}>;

/** What an operation on a lock that is held is given. */
export type LockOp = Readonly<{
  /** What acquire() returned. */
  lockId: string;
  /** Ends the operation at once, with a LockError "Aborted". */
  signal?: AbortSignal | undefined;
}>;

/** A lookup by key: whether, and until when, it is locked. */
export type KeyLookup = Readonly<{ key: string; lockId?: never; signal?: AbortSignal | undefined }>;

/** A lookup by lockId: whether this lock is still held. */
export type OwnershipLookup = Readonly<{
  lockId: string;
  key?: never;
  signal?: AbortSignal | undefined;
}>;

/** What a watch is given. */
export type WatchOp = Readonly<{
  key: string;
  /** Aborted when nobody waits for the key any more. */
  signal: AbortSignal;
}>;

/**
 * The least that the functions of this package need of a backend: acquire may return plain data,
 * without a handle's methods. Each operation is a single attempt.
 *
 * @example
 * const backend: CustomLockBackend<{ supportsFencing: false; timeAuthority: "client" }> = {
 *   capabilities: { supportsFencing: false, timeAuthority: "client" },
 *   async acquire({ key, ttlMs }) {
 *     const lockId = generateLockId();
 *     const expiresAtMs = Date.now() + ttlMs;
 *     return (await store.insert(key, lockId, expiresAtMs))
 *       ? { ok: true, lockId, expiresAtMs }
 *       : { ok: false, reason: "locked" };
 *   },
 *   // release, extend, isLocked, lookup
 * };
 * await lock(backend, work, { key: "report" });
 */
export interface CustomLockBackend<C extends BackendCapabilities = BackendCapabilities> {
  /** One attempt, no waiting. */
  acquire: (opts: KeyOp & Readonly<{ ttlMs: number }>) => Promise<AcquireResult<C>>;
  /** Idempotent: safe to call without knowing whether the lock is still held. */
  release: (opts: LockOp) => Promise<ReleaseResult>;
  /** Sets the expiry to `ttlMs` from now. Never brings an expired lock back. */
  extend: (opts: LockOp & Readonly<{ ttlMs: number }>) => Promise<ExtendResult>;
  isLocked: (opts: KeyOp) => Promise<boolean>;
  /** By key or by lockId: for diagnostics, never as a guard. `null`: expired or not there. */
  lookup: (opts: KeyLookup | OwnershipLookup) => Promise<LockInfo<C> | null>;
  /**
   * Resolves when the key may be free, so that a waiter tries again at once and not only when its
   * back-off is over. It may resolve too often, late or never: a wait does not depend on it.
   *
   * @example
   * watch: ({ key, signal }) => once(events, `released:${key}`, { signal }).then(() => {}),
   */
  watch?: ((opts: WatchOp) => Promise<void>) | undefined;
  readonly capabilities: Readonly<C>;
}

/** A backend whose acquire returns handles. Each operation is a single attempt. */
export interface LockBackend<
  C extends BackendCapabilities = BackendCapabilities,
> extends CustomLockBackend<C> {
  /**
   * One attempt, no waiting: `lock()` and `hold()` wait.
   *
   * @example
   * await using held = await backend.acquire({ key: "report", ttlMs: 30_000 });
   * if (!held.ok) return; // somebody else has it
   */
  acquire: (opts: KeyOp & Readonly<{ ttlMs: number }>) => Promise<DecoratedAcquireResult<C>>;
  lookup: {
    /** What is known of the lock on a key: for diagnostics, never as a guard. */
    (opts: KeyLookup): Promise<LockInfo<C> | null>;
    /** What is known of a lock by its lockId: for diagnostics, never as a guard. */
    (opts: OwnershipLookup): Promise<LockInfo<C> | null>;
    (opts: KeyLookup | OwnershipLookup): Promise<LockInfo<C> | null>;
  };
}

/** How long a close waits. */
export interface CloseOptions {
  /**
   * Locks that `lock()`, `hold()` and `lead()` hold keep their connection for that long at most;
   * then they are given up ("LockLost") and released. Default 10,000 ms.
   */
  timeoutMs?: number | undefined;
}

/** A backend of this package: it holds connections and can be closed. */
export interface ManagedLockBackend<
  C extends BackendCapabilities = BackendCapabilities,
> extends LockBackend<C> {
  /**
   * One attempt, no waiting: `lock()` and `hold()` wait.
   *
   * @example
   * await using held = await backend.acquire({ key: "report", ttlMs: 30_000 });
   * if (!held.ok) return; // somebody else has it
   * await write(report, { fence: held.fence, signal: held.signal });
   */
  acquire: (opts: KeyOp & Readonly<{ ttlMs: number }>) => Promise<ManagedAcquireResult<C>>;
  /**
   * Ends the connections. There are no new locks from then on, and waits end; locks that are held
   * have `timeoutMs` to be released. A second call waits for the first.
   */
  close: (options?: CloseOptions) => Promise<void>;
  [Symbol.asyncDispose]: () => Promise<void>;
}

/** Told when a release that nobody waits for failed: the lock then ends by its ttl. */
export type OnReleaseError = (
  error: Error,
  context: {
    lockId: string;
    key: string;
    /** At the end of a scope, of `lock()`'s function or of a held lock. */
    source: "disposal";
  },
) => void;

/** How handles of a backend end with their scope. */
export interface BackendConfig {
  /**
   * Told when a release at the end of a scope failed. Without it the failure is logged, in
   * production only with SYNCGUARD_DEBUG=true.
   */
  onReleaseError?: OnReleaseError | undefined;
  /** Bounds the wait at the end of a scope, in milliseconds. Without it, or 0: no bound. */
  disposeTimeoutMs?: number | undefined;
}

/** Another name of BackendConfig. */
export type BackendHooks = BackendConfig;

/** Options of every backend. */
export interface ConnectionOptions extends BackendConfig {
  /** How long to wait for a connection, in milliseconds. */
  connectTimeoutMs?: number | undefined;
  /** How long to wait for an answer, in milliseconds: beyond it is a "NetworkTimeout". */
  operationTimeoutMs?: number | undefined;
}

/** As in Node's `tls.connect()`: certificates and keys are PEM. */
export interface TlsOptions {
  /** Authorities, in place of the system's. */
  ca?: string | Uint8Array | readonly (string | Uint8Array)[] | undefined;
  /** The client's certificate. */
  cert?: string | Uint8Array | undefined;
  /** The client's private key. */
  key?: string | Uint8Array | undefined;
  /** The name that the server's certificate must be for, when it is not the host's. */
  servername?: string | undefined;
  /** `false`: any certificate will do. Default true. */
  rejectUnauthorized?: boolean | undefined;
}
