// lock() and its kin: wait for a lock, keep it, give it back.

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
   * Attempts after the first one. Default 10; may be Infinity. Those made because the key may be
   * free do not count.
   */
  maxRetries?: number | undefined;
  /** The first delay between attempts. Default 100. */
  retryDelayMs?: number | undefined;
  /** The longest delay between attempts. Default: none. */
  maxDelayMs?: number | undefined;
  /** Whether each delay is twice the one before. Default "exponential". */
  backoff?: "exponential" | "fixed" | undefined;
  /** What of each delay is random. Default "equal": half of it. */
  jitter?: "equal" | "full" | "none" | undefined;
  /** A hard wall for the whole wait. Default 5000; may be Infinity. */
  timeoutMs?: number | undefined;
  /** Cancels the wait only. */
  signal?: AbortSignal | undefined;
}

/** What `lock`, `tryLock`, `hold` and `tryHold` are told. */
export interface LockConfig {
  /** What to lock: up to 512 bytes of UTF-8, compared in Unicode NFC. */
  key: string;
  /** The lock ends by itself after that. Default 30000. */
  ttlMs?: number | undefined;
  /**
   * Cancels the wait; while the lock is held it aborts the lock's own signal. The lock is released
   * in any case.
   */
  signal?: AbortSignal | undefined;
  /** How to wait. */
  acquisition?: AcquisitionOptions | undefined;
  /** Extends the lock for as long as it is held, even when the event loop is busy. Default false. */
  autoExtend?: boolean | undefined;
  /**
   * With `autoExtend`: the longest time that the lock is kept. Then it is given up: its signal
   * aborts with "LockLost", and it is released. Default: no end.
   */
  maxHoldMs?: number | undefined;
  /**
   * The lock is not given back before this long after it was acquired, even when the work is done
   * sooner: for jobs that several hosts start at about the same time.
   *
   * @example
   * await tryLock(sendNewsletter, { key: "newsletter:monday", minHoldMs: 60_000 });
   */
  minHoldMs?: number | undefined;
  /**
   * `lock()` and `tryLock()` reject with "LockLost" when the lock was lost before the function
   * returned. Default false: its value is returned, and outside production there is a warning.
   */
  throwIfLost?: boolean | undefined;
  /** A label for metrics and traces, for what keys of one kind have in common. Not the key. */
  name?: string | undefined;
  /**
   * Told when the release failed. Without it the failure is logged, in production only with
   * SYNCGUARD_DEBUG=true; the lock ends by its ttl.
   */
  onReleaseError?: OnReleaseError | undefined;
  /** @deprecated Use withTelemetry. */
  onEvent?: ((event: LockEvent) => void) | undefined;
}

/** What `lead` is told: it waits as long as it takes, and always keeps the lock alive. */
export interface LeadConfig extends Omit<LockConfig, "acquisition" | "autoExtend" | "throwIfLost"> {
  /** How to wait. */
  acquisition?: Omit<AcquisitionOptions, "maxRetries" | "timeoutMs"> | undefined;
}

/** What the function receives: the lock that is held while it runs. */
export type LockContext<C extends BackendCapabilities = FencingCapabilities> = LockWatch & {
  /** 22 characters that prove the ownership. Not for logs. */
  readonly lockId: string;
  /** The latest expiry known. */
  readonly expiresAtMs: number;
  /** Sets the expiry to `ttlMs` from now; without it, the ttl of the config. */
  readonly extend: (ttlMs?: number) => Promise<ExtendResult>;
} & (C["supportsFencing"] extends true
    ? {
        /** Higher for each acquisition of the key. Hand it to what you write to. */
        readonly fence: Fence;
      }
    : { readonly fence?: Fence | undefined });

/** A lock that is held until it is released, or its scope ends. */
export type HeldLock<C extends BackendCapabilities = FencingCapabilities> = LockContext<C> & {
  /** Gives the lock back. `ok: false`: it was not there any more. */
  readonly release: () => Promise<ReleaseResult>;
  /** Releases unless that was done. Never throws: failures go to `onReleaseError`. */
  readonly [Symbol.asyncDispose]: () => Promise<void>;
};

/** What `tryLock` returns. */
export type TryLockResult<T> = { ok: true; value: T } | { ok: false; reason: "locked" };

/**
 * Runs fn while the lock is held, and returns what it returns. Uses the backend of the environment
 * variable SYNCGUARD_URL, or else a SQLite file in the temp directory: that protects the processes of
 * this user on this host, but in a container or pod only that one, and under systemd's PrivateTmp
 * only that service.
 *
 * @example
 * await lock(
 *   async ({ fence, signal }) => {
 *     await writeReport({ fence, signal });
 *   },
 *   { key: "report:daily", autoExtend: true },
 * );
 */
export function lock<T>(
  fn: (context: LockContext) => Promise<T> | T,
  config: LockConfig,
): Promise<T>;
/** Runs fn while the lock is held on this backend, and returns what it returns. */
export function lock<T, C extends BackendCapabilities>(
  backend: CustomLockBackend<C>,
  fn: (context: LockContext<C>) => Promise<T> | T,
  config: LockConfig,
): Promise<T>;

/**
 * As `lock`, but does not wait: one attempt.
 *
 * @example
 * const done = await tryLock(cleanUp, { key: "clean-up" });
 * if (!done.ok) console.log("somebody else is at it");
 */
export function tryLock<T>(
  fn: (context: LockContext) => Promise<T> | T,
  config: LockConfig,
): Promise<TryLockResult<T>>;
/** As `lock` on this backend, but does not wait: one attempt. */
export function tryLock<T, C extends BackendCapabilities>(
  backend: CustomLockBackend<C>,
  fn: (context: LockContext<C>) => Promise<T> | T,
  config: LockConfig,
): Promise<TryLockResult<T>>;

/**
 * Waits for the lock and holds it until the scope ends. Rejects with "AcquisitionTimeout" when it
 * could not be had.
 *
 * @example
 * await using held = await hold({ key: "report:daily", autoExtend: true });
 * await writeReport({ fence: held.fence, signal: held.signal });
 */
export function hold(config: LockConfig): Promise<HeldLock>;
/** Waits for the lock on this backend and holds it until the scope ends. */
export function hold<C extends BackendCapabilities>(
  backend: CustomLockBackend<C>,
  config: LockConfig,
): Promise<HeldLock<C>>;

/**
 * As `hold`, but does not wait: `null` when somebody else has the lock.
 *
 * @example
 * await using held = await tryHold({ key: "report:daily" });
 * if (held === null) return;
 */
export function tryHold(config: LockConfig): Promise<HeldLock | null>;
/** As `hold` on this backend, but does not wait: `null` when somebody else has the lock. */
export function tryHold<C extends BackendCapabilities>(
  backend: CustomLockBackend<C>,
  config: LockConfig,
): Promise<HeldLock<C> | null>;

/**
 * Leader election: waits for the lock as long as it takes, keeps it alive and runs fn. When the
 * lock is lost, fn's signal aborts, and after fn has ended it stands for election again. Ends, with
 * what fn returns or throws, or when `config.signal` is aborted.
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
/** Leader election on this backend. */
export function lead<T, C extends BackendCapabilities>(
  backend: CustomLockBackend<C>,
  fn: (context: LockContext<C>) => Promise<T> | T,
  config: LeadConfig,
): Promise<T>;

/** `lock` bound to a backend. */
export type AutoLock<C extends BackendCapabilities = FencingCapabilities> = <T>(
  fn: (context: LockContext<C>) => Promise<T> | T,
  config: LockConfig,
) => Promise<T>;

/** `lock` bound to a backend of its own, which is closed with it. */
export interface ManagedLock<C extends BackendCapabilities = FencingCapabilities> {
  <T>(fn: (context: LockContext<C>) => Promise<T> | T, config: LockConfig): Promise<T>;
  /** Closes the backend: see ManagedLockBackend. */
  close: (options?: CloseOptions) => Promise<void>;
  [Symbol.asyncDispose]: () => Promise<void>;
}

/**
 * `lock` bound to a backend.
 *
 * @example
 * const lock = createAutoLock(backend);
 * await lock(work, { key: "report" });
 */
export function createAutoLock<C extends BackendCapabilities>(
  backend: CustomLockBackend<C>,
): AutoLock<C>;
