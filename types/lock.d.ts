// lock(), hold(), lead() and their variants: wait for a lock, keep it alive, release it.

import type {
  BackendCapabilities,
  CloseOptions,
  CustomLockBackend,
  FencingCapabilities,
  OnReleaseError,
} from "./backend.js";
import type { ExtendResult, Fence, LockWatch, ReleaseResult } from "./results.js";
import type { LockEvent } from "./telemetry.js";

/** How to wait for a lock. */
export interface AcquisitionOptions {
  /**
   * How many times to retry after the first attempt. Default 10, or no limit if you set `timeoutMs`;
   * can be Infinity. Retries after a notification that the key may be free do not count.
   */
  maxRetries?: number | undefined;
  /** The first delay between attempts, in milliseconds. Default 100. */
  retryDelayMs?: number | undefined;
  /** The longest delay between attempts, in milliseconds. Default: no limit. */
  maxDelayMs?: number | undefined;
  /** "exponential" (the default) doubles the delay after each attempt; "fixed" keeps it. */
  backoff?: "exponential" | "fixed" | undefined;
  /** How much of each delay is random: "equal" (the default) half of it, "full" all, "none" nothing. */
  jitter?: "equal" | "full" | "none" | undefined;
  /**
   * Limit for the whole wait, in milliseconds. Default 5000; can be Infinity. If you set it without
   * `maxRetries`, it is the only limit.
   */
  timeoutMs?: number | undefined;
  /** Cancels the wait, but has no effect once the lock is held. */
  signal?: AbortSignal | undefined;
}

/** With how many others a lock shares its key. */
export interface SharingOptions {
  /**
   * How many holders the key may have at a time, 1 to 1,000. Default 1: an exclusive lock. Each attempt
   * brings its own limit, so you can change it while processes with the old one still run.
   *
   * @example
   * await lock(callStripe, { key: "stripe", concurrency: 5 });
   */
  concurrency?: number | undefined;
  /**
   * "shared": any number of holders at a time, or up to `concurrency`, but never together with an
   * exclusive one. Use it for readers. "exclusive" (the default without `concurrency`): the only
   * holder, such as a writer. A waiting writer keeps new readers out, so it gets its turn.
   *
   * @example
   * await lock(readIndex, { key: "index", mode: "shared" });
   */
  mode?: "exclusive" | "shared" | undefined;
}

/** What `lock`, `tryLock`, `hold` and `tryHold` can be told, but for what to lock. */
export interface LockOptions extends SharingOptions {
  /**
   * How long the lock lasts, in milliseconds, unless `autoExtend` is true. Leave it out to keep the
   * lock alive for as long as you hold it: its lease is then 30 s, so the key of a process that dies
   * is free within that time.
   */
  ttlMs?: number | undefined;
  /**
   * Cancels the wait. While the lock is held, it aborts the lock's own signal. The lock is released
   * either way.
   */
  signal?: AbortSignal | undefined;
  /** How to wait. */
  acquisition?: AcquisitionOptions | undefined;
  /**
   * Extends the lock for as long as it is held, even while your event loop is blocked. Default: true
   * without `ttlMs`, false with it. On a backend of your own the default is false, because its heartbeats
   * need the event loop.
   */
  autoExtend?: boolean | undefined;
  /**
   * With `autoExtend`: how long the lock is kept alive at most, in milliseconds. After that its signal
   * aborts with "LockLost" and the lock is released. Default: no limit.
   */
  maxHoldMs?: number | undefined;
  /**
   * Holds the lock at least this long, in milliseconds, even if the work finishes sooner. Use it for
   * jobs that several hosts start at about the same time. Default 0.
   *
   * @example
   * await tryLock(sendNewsletter, { key: "newsletter:monday", minHoldMs: 60_000 });
   */
  minHoldMs?: number | undefined;
  /**
   * Whether `lock()` and `tryLock()` reject with "LockLost" if the lock was lost before the function
   * returned. Default false: they return the function's value, and `process.emitWarning` reports the
   * first loss (code "SYNCGUARD_LOCK_LOST").
   */
  throwIfLost?: boolean | undefined;
  /** A label for metrics and traces, shared by similar keys, e.g. `"invoice"`. */
  name?: string | undefined;
  /**
   * Called when the release fails; the lock then stays held until its TTL ends. Default: the failure
   * is logged, in production only if SYNCGUARD_DEBUG=true. A lost lock is released in the background,
   * so this can be called after `lock()` has returned.
   */
  onReleaseError?: OnReleaseError | undefined;
  /** @deprecated Use withTelemetry. */
  onEvent?: ((event: LockEvent) => void) | undefined;
}

/** The config of `lock`, `tryLock`, `hold` and `tryHold`. */
export interface LockConfig extends LockOptions {
  /** What to lock: well-formed Unicode, up to 512 bytes of UTF-8. Compared in normalization form C. */
  key: string;
  keys?: undefined;
}

/** A config that shares the key, so that its holder has a `slot`. */
export type SharedLockConfig = LockConfig & ({ concurrency: number } | { mode: "shared" });

/** The config of a lock on several keys. */
export interface SeveralLocksConfig extends LockOptions {
  /**
   * What to lock: 1 to 32 keys, all of them or none. They are always acquired in the same order, so
   * callers cannot deadlock, whatever order they write them in.
   *
   * @example
   * await lock(transfer, { keys: ["account:1", "account:2"] });
   */
  keys: readonly string[];
  key?: undefined;
}

/** The config of `lead`, which waits as long as it takes and always keeps the lock alive. */
export interface LeadConfig extends Omit<
  LockConfig,
  "acquisition" | "autoExtend" | "throwIfLost" | "keys"
> {
  /** How to wait. */
  acquisition?: Omit<AcquisitionOptions, "maxRetries" | "timeoutMs"> | undefined;
}

/** The argument of the function that runs under a lock: the lock itself. */
export type LockContext<C extends BackendCapabilities = FencingCapabilities> = LockWatch & {
  /** Proves ownership. 22 characters; never log it. */
  readonly lockId: string;
  /** When the lock expires, as far as is known. Heartbeats move it. Unix milliseconds. */
  readonly expiresAtMs: number;
  /** Moves the expiry to `ttlMs` from now. Default: the `ttlMs` of the config. */
  readonly extend: (ttlMs?: number) => Promise<ExtendResult>;
  /**
   * The number of this holder if the key is shared: the smallest from 0 that no other holder has. Use
   * it as the number of a worker, shard or port.
   */
  readonly slot?: number | undefined;
} & (C["supportsFencing"] extends true
    ? {
        /** Grows with each acquisition of the key. Pass it to whatever you write to. */
        readonly fence: Fence;
      }
    : { readonly fence?: Fence | undefined });

/** The argument of the function that runs under a lock whose key is shared. */
export type SharedLockContext<C extends BackendCapabilities = FencingCapabilities> =
  LockContext<C> & { readonly slot: number };

/** The argument of the function that runs under several locks. Losing one loses all. */
export type SeveralLocksContext<C extends BackendCapabilities = FencingCapabilities> = LockWatch & {
  /** The lockIds, by the keys as you wrote them. Never log them. */
  readonly lockIds: Readonly<Record<string, string>>;
  /** The fences, by the keys as you wrote them. */
  readonly fences: Readonly<
    Record<string, C["supportsFencing"] extends true ? Fence : Fence | undefined>
  >;
  /** The slots, by the keys as you wrote them, if the keys are shared. */
  readonly slots?: Readonly<Record<string, number>> | undefined;
  /** The earliest expiry of the locks, as far as is known. Unix milliseconds. */
  readonly expiresAtMs: number;
  /** Moves the expiry of all locks to `ttlMs` from now. `ok: false` if one of them was lost. */
  readonly extend: (ttlMs?: number) => Promise<ExtendResult>;
};

/** What `hold` adds to a context: the lock's release. */
export interface Releasable {
  /** Releases the lock. `ok: false` if it was no longer held. */
  readonly release: () => Promise<ReleaseResult>;
  /** Releases the lock unless it is released already. Never throws: failures go to `onReleaseError`. */
  readonly [Symbol.asyncDispose]: () => Promise<void>;
}

/** A lock that is held until you release it or its scope ends. */
export type HeldLock<C extends BackendCapabilities = FencingCapabilities> = LockContext<C> &
  Releasable;

/** A share of a key that is held until you release it or its scope ends. */
export type HeldSharedLock<C extends BackendCapabilities = FencingCapabilities> =
  SharedLockContext<C> & Releasable;

/** Several locks that are held until you release them or their scope ends. */
export type HeldLocks<C extends BackendCapabilities = FencingCapabilities> =
  SeveralLocksContext<C> & Releasable;

/** The result of `tryLock`. */
export type TryLockResult<T> = { ok: true; value: T } | { ok: false; reason: "locked" };

/**
 * Waits for the lock, runs fn while it is held, and returns fn's result. Rejects with
 * "AcquisitionTimeout" if the lock stays busy. The backend is that of the environment variable
 * SYNCGUARD_URL, or else a SQLite file in the home directory. That file is shared by all processes of
 * this user on this host; a container or pod has one of its own.
 *
 * @example
 * await lock(
 *   async ({ fence, signal }) => {
 *     await writeReport({ fence, signal });
 *   },
 *   { key: "report:daily" },
 * );
 */
export function lock<T>(
  fn: (context: SharedLockContext) => Promise<T> | T,
  config: SharedLockConfig,
): Promise<T>;
export function lock<T>(
  fn: (context: LockContext) => Promise<T> | T,
  config: LockConfig,
): Promise<T>;
/** With `keys`: acquires all of them, or none. */
export function lock<T>(
  fn: (context: SeveralLocksContext) => Promise<T> | T,
  config: SeveralLocksConfig,
): Promise<T>;
/** Waits for the lock on this backend, runs fn while it is held, and returns fn's result. */
export function lock<T, C extends BackendCapabilities>(
  backend: CustomLockBackend<C>,
  fn: (context: SharedLockContext<C>) => Promise<T> | T,
  config: SharedLockConfig,
): Promise<T>;
export function lock<T, C extends BackendCapabilities>(
  backend: CustomLockBackend<C>,
  fn: (context: LockContext<C>) => Promise<T> | T,
  config: LockConfig,
): Promise<T>;
/** With `keys`: acquires all of them, or none. */
export function lock<T, C extends BackendCapabilities>(
  backend: CustomLockBackend<C>,
  fn: (context: SeveralLocksContext<C>) => Promise<T> | T,
  config: SeveralLocksConfig,
): Promise<T>;

/**
 * Like `lock`, but tries once and does not wait.
 *
 * @example
 * const done = await tryLock(cleanUp, { key: "clean-up" });
 * if (!done.ok) console.log("another process is cleaning up");
 */
export function tryLock<T>(
  fn: (context: SharedLockContext) => Promise<T> | T,
  config: SharedLockConfig,
): Promise<TryLockResult<T>>;
export function tryLock<T>(
  fn: (context: LockContext) => Promise<T> | T,
  config: LockConfig,
): Promise<TryLockResult<T>>;
/** With `keys`: acquires all of them, or none. */
export function tryLock<T>(
  fn: (context: SeveralLocksContext) => Promise<T> | T,
  config: SeveralLocksConfig,
): Promise<TryLockResult<T>>;
/** Like `lock` on this backend, but tries once and does not wait. */
export function tryLock<T, C extends BackendCapabilities>(
  backend: CustomLockBackend<C>,
  fn: (context: SharedLockContext<C>) => Promise<T> | T,
  config: SharedLockConfig,
): Promise<TryLockResult<T>>;
export function tryLock<T, C extends BackendCapabilities>(
  backend: CustomLockBackend<C>,
  fn: (context: LockContext<C>) => Promise<T> | T,
  config: LockConfig,
): Promise<TryLockResult<T>>;
/** With `keys`: acquires all of them, or none. */
export function tryLock<T, C extends BackendCapabilities>(
  backend: CustomLockBackend<C>,
  fn: (context: SeveralLocksContext<C>) => Promise<T> | T,
  config: SeveralLocksConfig,
): Promise<TryLockResult<T>>;

/**
 * Waits for the lock and holds it until the scope ends. Rejects with "AcquisitionTimeout" if the
 * lock stays busy.
 *
 * Keep the handle: if it is garbage collected, the lock stays held, and outside production a
 * `SyncGuardWarning` with the code `SYNCGUARD_LOCK_COLLECTED` says so once.
 *
 * @example
 * await using held = await hold({ key: "report:daily" });
 * await writeReport({ fence: held.fence, signal: held.signal });
 */
export function hold(config: SharedLockConfig): Promise<HeldSharedLock>;
export function hold(config: LockConfig): Promise<HeldLock>;
/** With `keys`: acquires all of them, or none. */
export function hold(config: SeveralLocksConfig): Promise<HeldLocks>;
/** Waits for the lock on this backend and holds it until the scope ends. */
export function hold<C extends BackendCapabilities>(
  backend: CustomLockBackend<C>,
  config: SharedLockConfig,
): Promise<HeldSharedLock<C>>;
export function hold<C extends BackendCapabilities>(
  backend: CustomLockBackend<C>,
  config: LockConfig,
): Promise<HeldLock<C>>;
/** With `keys`: acquires all of them, or none. */
export function hold<C extends BackendCapabilities>(
  backend: CustomLockBackend<C>,
  config: SeveralLocksConfig,
): Promise<HeldLocks<C>>;

/**
 * Like `hold`, but does not wait: returns `null` if somebody else holds the lock.
 *
 * @example
 * await using held = await tryHold({ key: "report:daily" });
 * if (held === null) return;
 */
export function tryHold(config: SharedLockConfig): Promise<HeldSharedLock | null>;
export function tryHold(config: LockConfig): Promise<HeldLock | null>;
/** With `keys`: acquires all of them, or none. */
export function tryHold(config: SeveralLocksConfig): Promise<HeldLocks | null>;
/** Like `hold` on this backend, but does not wait: returns `null` if somebody else holds the lock. */
export function tryHold<C extends BackendCapabilities>(
  backend: CustomLockBackend<C>,
  config: SharedLockConfig,
): Promise<HeldSharedLock<C> | null>;
export function tryHold<C extends BackendCapabilities>(
  backend: CustomLockBackend<C>,
  config: LockConfig,
): Promise<HeldLock<C> | null>;
/** With `keys`: acquires all of them, or none. */
export function tryHold<C extends BackendCapabilities>(
  backend: CustomLockBackend<C>,
  config: SeveralLocksConfig,
): Promise<HeldLocks<C> | null>;

/**
 * Leader election: waits for the lock as long as it takes, keeps it alive and runs fn. If the lock is
 * lost, fn's signal aborts, and lead rejoins the election once fn finishes. Otherwise it settles as
 * fn does, or rejects when `config.signal` is aborted.
 *
 * @example
 * await lead(
 *   async ({ fence, signal }) => {
 *     while (!signal.aborted) await dispatchNext({ fence, signal });
 *   },
 *   { key: "dispatcher", signal: shutdown.signal },
 * );
 */
export function lead<T>(
  fn: (context: LockContext) => Promise<T> | T,
  config: LeadConfig,
): Promise<T>;
/** Leader election with a lock on this backend: see above. */
export function lead<T, C extends BackendCapabilities>(
  backend: CustomLockBackend<C>,
  fn: (context: LockContext<C>) => Promise<T> | T,
  config: LeadConfig,
): Promise<T>;

/** `lock`, bound to a backend. */
export interface AutoLock<C extends BackendCapabilities = FencingCapabilities> {
  <T>(fn: (context: SharedLockContext<C>) => Promise<T> | T, config: SharedLockConfig): Promise<T>;
  <T>(fn: (context: LockContext<C>) => Promise<T> | T, config: LockConfig): Promise<T>;
  <T>(
    fn: (context: SeveralLocksContext<C>) => Promise<T> | T,
    config: SeveralLocksConfig,
  ): Promise<T>;
}

/**
 * `lock`, bound to a backend of its own; `close()` closes that too. The other functions are its
 * methods and can be destructured.
 *
 * @example
 * const lock = createLock(process.env.REDIS_URL);
 * await lock(work, { key: "report" });
 * const done = await lock.tryLock(work, { key: "report" });
 */
export interface ManagedLock<C extends BackendCapabilities = FencingCapabilities> {
  <T>(fn: (context: SharedLockContext<C>) => Promise<T> | T, config: SharedLockConfig): Promise<T>;
  <T>(fn: (context: LockContext<C>) => Promise<T> | T, config: LockConfig): Promise<T>;
  <T>(
    fn: (context: SeveralLocksContext<C>) => Promise<T> | T,
    config: SeveralLocksConfig,
  ): Promise<T>;
  /** `tryLock` on this backend: tries once, does not wait. */
  tryLock: {
    <T>(
      fn: (context: SharedLockContext<C>) => Promise<T> | T,
      config: SharedLockConfig,
    ): Promise<TryLockResult<T>>;
    <T>(
      fn: (context: LockContext<C>) => Promise<T> | T,
      config: LockConfig,
    ): Promise<TryLockResult<T>>;
    <T>(
      fn: (context: SeveralLocksContext<C>) => Promise<T> | T,
      config: SeveralLocksConfig,
    ): Promise<TryLockResult<T>>;
  };
  /** `hold` on this backend: waits, then holds the lock until its scope ends. */
  hold: {
    (config: SharedLockConfig): Promise<HeldSharedLock<C>>;
    (config: LockConfig): Promise<HeldLock<C>>;
    (config: SeveralLocksConfig): Promise<HeldLocks<C>>;
  };
  /** `tryHold` on this backend: returns `null` if somebody else holds the lock. */
  tryHold: {
    (config: SharedLockConfig): Promise<HeldSharedLock<C> | null>;
    (config: LockConfig): Promise<HeldLock<C> | null>;
    (config: SeveralLocksConfig): Promise<HeldLocks<C> | null>;
  };
  /** `lead` on this backend: leader election. */
  lead: <T>(fn: (context: LockContext<C>) => Promise<T> | T, config: LeadConfig) => Promise<T>;
  /** Closes the backend: see ManagedLockBackend. */
  close: (options?: CloseOptions) => Promise<void>;
  [Symbol.asyncDispose]: () => Promise<void>;
}

/**
 * Returns `lock`, bound to a backend.
 *
 * @example
 * const lock = createAutoLock(backend);
 * await lock(work, { key: "report" });
 */
export function createAutoLock<C extends BackendCapabilities>(
  backend: CustomLockBackend<C>,
): AutoLock<C>;
