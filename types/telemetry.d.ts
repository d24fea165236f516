// Events about what happens to locks.

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

/** One operation, or one thing that happened to a lock. */
export interface LockEvent {
  /**
   * The operation; "lost": a lock that was needed is gone; "heartbeat": an extension that
   * `autoExtend` made. One "acquire" for each wait, not for each attempt.
   */
  type: "acquire" | "release" | "extend" | "isLocked" | "lookup" | "lost" | "heartbeat";
  /** "fail" of isLocked: not locked; of lookup: nothing found; else not done. */
  result: "ok" | "fail";
  /** Why it was not done, where the backend can tell. */
  reason?: "locked" | FailureReason;
  keyHash?: HashId;
  lockIdHash?: HashId;
  /** Only where `includeRaw` allows it. */
  key?: string;
  /** Only where `includeRaw` allows it. */
  lockId?: string;
  /** How long the operation took. */
  durationMs?: number;
  /** Of an acquire: how often it was tried. Not known when its caller cancelled it. */
  attempts?: number;
  /** Of an acquire: how long it waited for others. */
  waitMs?: number;
  /** Of a release or a loss: how long the lock was held. */
  heldMs?: number;
  /** The LockError's, when there was one. */
  code?: LockErrorCode;
  /** Which backend: "redis", "postgres" and so on. */
  backend?: string;
  /** The `name` of the lock's config. */
  name?: string;
}

/** Who is told, and what. */
export interface TelemetryOptions {
  /** Not awaited; whatever it throws is ignored. */
  onEvent: (event: LockEvent) => void;
  /**
   * Whether events carry the raw key and lockId. `true` still hides keys that look like secrets
   * ("token", "password", …); a function decides for each event. Default false.
   */
  includeRaw?: boolean | ((event: LockEvent) => boolean) | undefined;
}

/**
 * The same backend, and events about what happens on it.
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
 * and `syncguard:hold` of `node:diagnostics_channel`: one object for each operation, or for the time
 * from a grant to its release, that is filled until `asyncEnd`.
 */
export interface LockTrace {
  /** Which backend: "redis", "postgres" and so on. */
  backend?: string;
  /** The `name` of the lock's config. */
  name?: string;
  keyHash?: HashId;
  lockIdHash?: HashId;
  /** "fail" without an error: another holds the lock, or there was none to release or extend. */
  result?: "ok" | "fail";
  /** Of an acquire: how often it was tried. */
  attempts?: number;
  /** Of an acquire: how long it waited for others. */
  waitMs?: number;
  /** From the start to the end. */
  durationMs?: number;
  /** The LockError's, when there was one. Of a hold: "LockLost" from the moment of the loss. */
  code?: LockErrorCode;
  /** Without the key and the lockId. */
  error?: LockError;
}
