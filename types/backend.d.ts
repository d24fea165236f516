// Backends: their capabilities, their operations and the options that all of them share.

import type { SharingOptions } from "./lock.js";
import type {
  AcquireResult,
  DecoratedAcquireResult,
  ExtendResult,
  LockInfo,
  ManagedAcquireResult,
  ReleaseResult,
} from "./results.js";

/** What a backend can do. The same facts are part of its type. */
export interface BackendCapabilities {
  /** The kind of backend, such as "redis". */
  backend?: string;
  /** Whether every acquire returns a fence. */
  supportsFencing: boolean;
  /** Whose clock decides whether a lock has expired. */
  timeAuthority: "server" | "client";
  /**
   * How waiters learn of a release: "notification" if the store tells them, "polling" if they retry
   * until they get the lock. Not enumerable, so it does not appear when capabilities are compared or
   * printed.
   */
  readonly waitsBy?: "notification" | "polling" | undefined;
  /**
   * Whether several holders can share a key (`concurrency`, `mode`). A backend of your own declares it
   * if its `acquire` does what these two options say. Not enumerable on backends of this package.
   */
  readonly supportsSharing?: boolean | undefined;
}

/** The capabilities that all backends of this package share. */
export interface FencingCapabilities extends BackendCapabilities {
  backend: string;
  supportsFencing: true;
}

/** Argument of an operation on a key. */
export type KeyOp = Readonly<{
  /** Well-formed Unicode, up to 512 bytes of UTF-8. Compared in Unicode normalization form C. */
  key: string;
  /** Cancels the operation: it rejects at once with a LockError "Aborted". */
  signal?: AbortSignal | undefined;
}>;

/** Argument of `acquire`. */
export type AcquireOp = KeyOp & Readonly<{ ttlMs: number }> & Readonly<SharingOptions>;

/** Argument of an operation on a held lock. */
export type LockOp = Readonly<{
  /** The `lockId` that acquire() returned. */
  lockId: string;
  /** Cancels the operation: it rejects at once with a LockError "Aborted". */
  signal?: AbortSignal | undefined;
}>;

/** A lookup by key: whether it is locked, and until when. */
export type KeyLookup = Readonly<{ key: string; lockId?: never; signal?: AbortSignal | undefined }>;

/** A lookup by lockId: whether this lock is still held. */
export type OwnershipLookup = Readonly<{
  lockId: string;
  key?: never;
  signal?: AbortSignal | undefined;
}>;

/** Argument of `watch`. */
export type WatchOp = Readonly<{
  key: string;
  /** Aborted when nobody waits for the key anymore. */
  signal: AbortSignal;
}>;

/**
 * The operations that you implement to write a backend of your own. Each is a single attempt: this
 * package does the waiting and the heartbeats. acquire() may return plain data, without the methods
 * of a handle. `testBackend()` of "syncguard/testing" tests an implementation.
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
export interface CustomLockBackend<C extends BackendCapabilities = FencingCapabilities> {
  /** Tries once to acquire the lock. Does not wait. */
  acquire: (opts: AcquireOp) => Promise<AcquireResult<C>>;
  /** Releases the lock. Idempotent: safe to call even if the lock may already be gone. */
  release: (opts: LockOp) => Promise<ReleaseResult>;
  /** Moves the expiry to `ttlMs` from now. Never revives an expired lock. */
  extend: (opts: LockOp & Readonly<{ ttlMs: number }>) => Promise<ExtendResult>;
  isLocked: (opts: KeyOp) => Promise<boolean>;
  /**
   * Finds a lock by key or by lockId: for diagnostics, never as a guard. Returns `null` if there is
   * none, or if it has expired.
   */
  lookup: (opts: KeyLookup | OwnershipLookup) => Promise<LockInfo<C> | null>;
  /**
   * Resolves when the key may be free, so that a waiter retries at once instead of after its backoff.
   * It may resolve too often, too late or never: waiters still retry on their own.
   *
   * @example
   * watch: ({ key, signal }) => once(events, `released:${key}`, { signal }).then(() => {}),
   */
  watch?: ((opts: WatchOp) => Promise<void>) | undefined;
  readonly capabilities: Readonly<C>;
}

/** A backend whose acquire returns handles. Each operation is a single attempt. */
export interface LockBackend<
  C extends BackendCapabilities = FencingCapabilities,
> extends CustomLockBackend<C> {
  /**
   * Tries once to acquire the lock, without waiting. Use `lock()` or `hold()` to wait.
   *
   * @example
   * await using held = await backend.acquire({ key: "report", ttlMs: 30_000 });
   * if (!held.ok) return; // somebody else holds it
   */
  acquire: (opts: AcquireOp) => Promise<DecoratedAcquireResult<C>>;
  lookup: {
    /** Returns what is known about the lock on a key: for diagnostics, never as a guard. */
    (opts: KeyLookup): Promise<LockInfo<C> | null>;
    /** Returns what is known about the lock with this lockId: for diagnostics, never as a guard. */
    (opts: OwnershipLookup): Promise<LockInfo<C> | null>;
    (opts: KeyLookup | OwnershipLookup): Promise<LockInfo<C> | null>;
  };
}

/** Options of `close()`. */
export interface CloseOptions {
  /**
   * How long held locks may keep their connection, in milliseconds. After that, locks that `lock()`,
   * `hold()` and `lead()` still hold are lost ("LockLost") and released. Default 10,000.
   */
  timeoutMs?: number | undefined;
}

/** A backend of this package. It owns connections, so it can be closed. */
export interface ManagedLockBackend<
  C extends BackendCapabilities = FencingCapabilities,
> extends LockBackend<C> {
  /**
   * Tries once to acquire the lock, without waiting. Use `lock()` or `hold()` to wait.
   *
   * @example
   * await using held = await backend.acquire({ key: "report", ttlMs: 30_000 });
   * if (!held.ok) return; // somebody else holds it
   * await write(report, { fence: held.fence, signal: held.signal });
   */
  acquire: (opts: AcquireOp) => Promise<ManagedAcquireResult<C>>;
  /**
   * Closes the backend's connections. Acquires and waits reject from now on; locks that are
   * held have `timeoutMs` to be released. A second call waits for the first.
   */
  close: (options?: CloseOptions) => Promise<void>;
  [Symbol.asyncDispose]: () => Promise<void>;
}

/**
 * Called when a release that nobody awaits fails. The lock then stays held until its TTL ends.
 */
export type OnReleaseError = (
  error: Error,
  context: {
    lockId: string;
    key: string;
    /** The end of a scope, of `lock()`'s function or of a held lock. */
    source: "disposal";
  },
) => void;

/** How handles of a backend are released when their scope ends. */
export interface BackendConfig {
  /**
   * Called when a release at the end of a scope fails. Default: the failure is logged, in production
   * only if SYNCGUARD_DEBUG=true.
   */
  onReleaseError?: OnReleaseError | undefined;
  /** Longest time that the end of a scope waits for the release, in milliseconds. Default 0: no limit. */
  disposeTimeoutMs?: number | undefined;
}

/** An alias of BackendConfig. */
export type BackendHooks = BackendConfig;

/** Options of every backend. */
export interface ConnectionOptions extends BackendConfig {
  /** Longest time to wait for a connection, in milliseconds. */
  connectTimeoutMs?: number | undefined;
  /** Longest time to wait for a reply, in milliseconds. After it the operation rejects with "NetworkTimeout". */
  operationTimeoutMs?: number | undefined;
  /**
   * A name for the holder of this backend's locks. It is stored with each lock and shown by lookup(),
   * listLocks(), `syncguard ls` and in the error of a waiter that times out. Up to 128 bytes without
   * control characters. Default: none. PostgreSQL stores it in a column of its own: pass the same
   * option to setupSchema().
   *
   * @example
   * import { hostname } from "node:os";
   * createRedisBackend(url, { holderLabel: `${hostname()}:${process.pid}` });
   */
  holderLabel?: string | undefined;
  /**
   * Whether locks that `lock`, `hold` and `lead` still hold are released when the process ends. That
   * covers a normal end, `process.exit()`, an uncaught error, and SIGINT, SIGTERM and SIGHUP if the
   * program has no handler for them. It delays the end by at most half a second. Default true.
   */
  releaseOnExit?: boolean | undefined;
}

/** TLS options, as in Node's `tls.connect()`. Certificates and keys are PEM. */
export interface TlsOptions {
  /** Trusted certificate authorities. Default: those of the system. */
  ca?: string | Uint8Array | readonly (string | Uint8Array)[] | undefined;
  /** The client's certificate. */
  cert?: string | Uint8Array | undefined;
  /** The client's private key. */
  key?: string | Uint8Array | undefined;
  /** The name that the server's certificate must match. Default: the host. */
  servername?: string | undefined;
  /** Whether the server's certificate is verified. Default true; `false` accepts any certificate. */
  rejectUnauthorized?: boolean | undefined;
}
