// Events and traces of what happens to locks.

import type {
  BackendCapabilities,
  CustomLockBackend,
  LockBackend,
  ManagedLockBackend,
} from "./backend.js";
import type { LockError, LockErrorCode } from "./errors.js";
import type { HashId } from "./results.js";

/** Why a release or extend found no lock. */
export type FailureReason = "expired" | "not-found";

/** One operation, or something else that happened to a lock. */
export interface LockEvent {
  /**
   * The operation. "lost": a lock was lost while it was in use. "heartbeat": `autoExtend` extended a
   * lock. A wait is one "acquire", however many attempts it makes.
   */
  type: "acquire" | "release" | "extend" | "isLocked" | "lookup" | "lost" | "heartbeat";
  /** "fail": isLocked found the key free, lookup found nothing, or the operation had no effect. */
  result: "ok" | "fail";
  /** Why the operation had no effect, if the backend knows. */
  reason?: "locked" | FailureReason;
  keyHash?: HashId;
  lockIdHash?: HashId;
  /** Only if `includeRaw` allows it. */
  key?: string;
  /** Only if `includeRaw` allows it. */
  lockId?: string;
  /** How long the operation took, in milliseconds. */
  durationMs?: number;
  /** Of an acquire: the number of attempts. Missing if its caller cancelled it. */
  attempts?: number;
  /** Of an acquire: how long it waited for other holders, in milliseconds. */
  waitMs?: number;
  /** Of a release or a loss: how long the lock was held, in milliseconds. */
  heldMs?: number;
  /** "shared" if the lock may have other holders at the same time, also if the acquire failed. */
  mode?: "shared";
  /** The number of this holder among those of the key, if the config has `concurrency` or "shared". */
  slot?: number;
  /** The code of the LockError, if there was one. */
  code?: LockErrorCode;
  /** The kind of backend: "redis", "postgres" and so on. */
  backend?: string;
  /** The `name` of the lock's config. */
  name?: string;
}

/** Options of `withTelemetry()`. */
export interface TelemetryOptions {
  /** Called for each event. It is not awaited, and errors that it throws are ignored. */
  onEvent: (event: LockEvent) => void;
  /**
   * Whether events include the raw key and lockId. `true` still hides keys that look like secrets
   * ("token", "password", …). A function decides for each event. Default false.
   */
  includeRaw?: boolean | ((event: LockEvent) => boolean) | undefined;
}

/**
 * Returns a backend that does the same and emits events about it.
 *
 * @example
 * const observed = withTelemetry(backend, {
 *   onEvent: ({ type, result, durationMs }) => metrics.record(type, result, durationMs),
 * });
 * await lock(observed, work, { key: "report" });
 */
export function withTelemetry<C extends BackendCapabilities>(
  backend: ManagedLockBackend<C>,
  options: TelemetryOptions,
): ManagedLockBackend<C>;
export function withTelemetry<C extends BackendCapabilities>(
  backend: CustomLockBackend<C>,
  options: TelemetryOptions,
): LockBackend<C>;

/**
 * The message of the tracing channels `syncguard:acquire`, `syncguard:release`, `syncguard:extend`
 * and `syncguard:hold` of `node:diagnostics_channel`. There is one object for each operation, and for
 * `hold` one from a grant to its release. Fields are added until `asyncEnd`.
 */
export interface LockTrace {
  /** The kind of backend: "redis", "postgres" and so on. */
  backend?: string;
  /** The `name` of the lock's config. */
  name?: string;
  /** "shared" if the lock may have other holders at the same time. */
  mode?: "shared";
  /** The number of this holder among those of the key. Missing in a wait for several keys. */
  slot?: number;
  keyHash?: HashId;
  lockIdHash?: HashId;
  /** "fail" without an error: somebody else holds the lock, or there was none to release or extend. */
  result?: "ok" | "fail";
  /** Of an acquire: the number of attempts. */
  attempts?: number;
  /** Of an acquire: how long it waited for other holders, in milliseconds. */
  waitMs?: number;
  /** Time from start to end, in milliseconds. */
  durationMs?: number;
  /** The code of the LockError, if there was one. Of a hold: "LockLost" once the lock is lost. */
  code?: LockErrorCode;
  /** The error, without the key and the lockId. */
  error?: LockError;
}
