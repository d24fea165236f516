/// <reference lib="esnext.disposable" />
// The public types of syncguard.

// ---------------------------------------------------------------------------------------------
// Backends

/** What a backend can do, as data and in its type. */
export interface BackendCapabilities {
  /** Which backend it is. */
  backend?: string;
  /** Whether every acquire returns a fence. */
  supportsFencing: boolean;
  /** Whose clock decides whether a lock has expired. */
  timeAuthority: "server" | "client";
}

/** The capabilities that all backends of this package share. */
export interface FencingCapabilities extends BackendCapabilities {
  backend: string;
  supportsFencing: true;
}

export type KeyOp = Readonly<{ key: string; signal?: AbortSignal | undefined }>;
export type LockOp = Readonly<{ lockId: string; signal?: AbortSignal | undefined }>;
export type KeyLookup = Readonly<{ key: string; lockId?: never; signal?: AbortSignal | undefined }>;
export type OwnershipLookup = Readonly<{
  lockId: string;
  key?: never;
  signal?: AbortSignal | undefined;
}>;

/**
 * The least that the functions of this package need of a backend: acquire may return plain data,
 * without a handle's methods. Each operation is a single attempt.
 */
export interface CustomLockBackend<C extends BackendCapabilities = BackendCapabilities> {
  acquire: (opts: KeyOp & Readonly<{ ttlMs: number }>) => Promise<AcquireOk<C> | AcquireLocked>;
  /** Idempotent: safe to call without knowing whether the lock is still held. */
  release: (opts: LockOp) => Promise<ReleaseResult>;
  /** Sets the expiry to `ttlMs` from now. Never brings an expired lock back. */
  extend: (opts: LockOp & Readonly<{ ttlMs: number }>) => Promise<ExtendResult>;
  isLocked: (opts: KeyOp) => Promise<boolean>;
  /** By key or by lockId: for diagnostics, never as a guard. `null`: expired or not there. */
  lookup: (opts: KeyLookup | OwnershipLookup) => Promise<LockInfo<C> | null>;
  readonly capabilities: Readonly<C>;
}

/** A backend whose acquire returns handles. */
export interface LockBackend<
  C extends BackendCapabilities = BackendCapabilities,
> extends CustomLockBackend<C> {
  acquire: (opts: KeyOp & Readonly<{ ttlMs: number }>) => Promise<AcquireResult<C>>;
}

/** A backend of this package: it holds connections and can be closed. */
export interface ManagedLockBackend<
  C extends BackendCapabilities = BackendCapabilities,
> extends LockBackend<C> {
  /** Ends the connections. Operations after it reject. Closing twice is fine. */
  close: () => Promise<void>;
  [Symbol.asyncDispose]: () => Promise<void>;
}

export type OnReleaseError = (
  error: Error,
  context: { lockId: string; key: string; source?: "disposal" },
) => void;

/** How handles of a backend end with their scope. */
export interface BackendHooks {
  /** Told when a release at the end of a scope failed. Without it the failure is logged. */
  onReleaseError?: OnReleaseError | undefined;
  /** Bounds the wait at the end of a scope, in milliseconds. Without it there is no bound. */
  disposeTimeoutMs?: number | undefined;
}

// ---------------------------------------------------------------------------------------------
// Results

/** 15 digits. Compare fences as strings: `a > b`. */
export type Fence = string;

/** 24 hex characters that stand for a key or a lockId. */
export type HashId = string;

export type AcquireOk<C extends BackendCapabilities = BackendCapabilities> = {
  ok: true;
  lockId: string;
  expiresAtMs: number;
} & (C["supportsFencing"] extends true ? { fence: Fence } : {});

export type AcquireLocked = { ok: false; reason: "locked" };

/** The methods do not depend on `this`: a result may be taken apart or spread. */
export interface DisposableLockHandle {
  /** At most one release reaches the backend: a second call returns `{ ok: false }`. */
  release: (signal?: AbortSignal) => Promise<ReleaseResult>;
  extend: (ttlMs: number, signal?: AbortSignal) => Promise<ExtendResult>;
  /** Releases unless that was done. Never throws. */
  [Symbol.asyncDispose]: () => Promise<void>;
}

export type AcquireResult<C extends BackendCapabilities = BackendCapabilities> =
  (AcquireOk<C> & DisposableLockHandle) | (AcquireLocked & DisposableLockHandle);

/** `ok: false`: the lock was not there any more. */
export type ReleaseResult = { ok: true } | { ok: false };

/** `ok: false`: the lock was not there any more. */
export type ExtendResult = { ok: true; expiresAtMs: number } | { ok: false };

/** What may be shown of a lock. */
export type LockInfo<C extends BackendCapabilities = BackendCapabilities> = {
  keyHash: HashId;
  lockIdHash: HashId;
  expiresAtMs: number;
  acquiredAtMs: number;
} & (C["supportsFencing"] extends true ? { fence: Fence } : {});

export type LockInfoDebug<C extends BackendCapabilities = BackendCapabilities> = LockInfo<C> & {
  key: string;
  lockId: string;
};

export interface RawLockInfo {
  key: string;
  lockId: string;
  expiresAtMs: number;
  acquiredAtMs: number;
  fence?: Fence;
}

// ---------------------------------------------------------------------------------------------
// Errors

export type LockErrorCode =
  | "ServiceUnavailable"
  | "AuthFailed"
  | "InvalidArgument"
  | "RateLimited"
  /** A backend did not answer in time. */
  | "NetworkTimeout"
  /** lock() did not get the lock within its time and retries. */
  | "AcquisitionTimeout"
  /** A signal was aborted. */
  | "Aborted"
  /** The lock's time passed, or it could not be extended, while it was still needed. */
  | "LockLost"
  | "Internal";

export interface LockErrorContext {
  key?: string | undefined;
  lockId?: string | undefined;
  cause?: unknown;
  /** Facts from a backend, such as `sqlstate`. */
  [detail: string]: unknown;
}

/** Every rejection of this package. Messages never contain a key, a lockId or a credential. */
export class LockError extends Error {
  constructor(code: LockErrorCode, message?: string, context?: LockErrorContext);
  code: LockErrorCode;
  /** Not enumerable, so that printing the error does not print a key or lockId. */
  context: LockErrorContext | undefined;
  cause?: unknown;
}

// ---------------------------------------------------------------------------------------------
// lock()

export interface AcquisitionOptions {
  /** Attempts after the first one. Default 10; may be Infinity. */
  maxRetries?: number | undefined;
  /** Default 100. */
  retryDelayMs?: number | undefined;
  /** Default "exponential". */
  backoff?: "exponential" | "fixed" | undefined;
  /** Default "equal": half of each delay is random. */
  jitter?: "equal" | "full" | "none" | undefined;
  /** A hard wall for the whole wait. Default 5000. */
  timeoutMs?: number | undefined;
  /** Cancels the wait only. */
  signal?: AbortSignal | undefined;
}

export interface LockConfig {
  key: string;
  /** Default 30000. */
  ttlMs?: number | undefined;
  /** Cancels the wait; while fn runs it aborts `context.signal`. The lock is released in any case. */
  signal?: AbortSignal | undefined;
  acquisition?: AcquisitionOptions | undefined;
  /** Extends the lock for as long as fn runs. Default false. */
  autoExtend?: boolean | undefined;
  /** Told when the release failed. Without it such failures are ignored: the ttl ends the lock. */
  onReleaseError?: OnReleaseError | undefined;
  /** @deprecated Use withTelemetry. */
  onEvent?: ((event: LockEvent) => void) | undefined;
}

/** What fn receives. */
export type LockContext<C extends BackendCapabilities = FencingCapabilities> = {
  readonly lockId: string;
  /** The latest expiry known. */
  readonly expiresAtMs: number;
  /**
   * Aborts when the lock is lost (its reason is then a LockError "LockLost"), and when the
   * config's signal is aborted (with that signal's reason).
   */
  readonly signal: AbortSignal;
} & (C["supportsFencing"] extends true
  ? { readonly fence: Fence }
  : { readonly fence?: Fence | undefined });

/** lock() bound to a backend. */
export type AutoLock<C extends BackendCapabilities = FencingCapabilities> = <T>(
  fn: (context: LockContext<C>) => Promise<T> | T,
  config: LockConfig,
) => Promise<T>;

/**
 * Runs fn while the lock is held, and returns what it returns. Uses the backend of the
 * environment variable SYNCGUARD_URL, or else locks on this host (SQLite).
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

export function createAutoLock<C extends BackendCapabilities>(
  backend: CustomLockBackend<C>,
): AutoLock<C>;

/**
 * A backend by URL: redis:, rediss:, postgres:, postgresql:, firestore:, sqlite: or memory:.
 * The options are those of the backend.
 */
export function createBackend(
  url: string | URL,
  options?: BackendHooks & Record<string, unknown>,
): ManagedLockBackend<FencingCapabilities>;

/** lock() on the backend of a URL. */
export function createLock(
  url: string | URL,
  options?: BackendHooks & Record<string, unknown>,
): AutoLock;

// ---------------------------------------------------------------------------------------------
// Handles

/** Adds a handle's methods to what any backend's acquire returned. */
export function decorateAcquireResult<C extends BackendCapabilities>(
  backend: Pick<CustomLockBackend<C>, "release" | "extend">,
  result: AcquireOk<C> | AcquireLocked,
  key: string,
  onReleaseError?: OnReleaseError,
  disposeTimeoutMs?: number,
): AcquireResult<C>;

/** Acquires on any backend; the result always has a handle's methods. */
export function acquireHandle<C extends BackendCapabilities>(
  backend: CustomLockBackend<C>,
  opts: KeyOp & Readonly<{ ttlMs: number }>,
): Promise<AcquireResult<C>>;

export function createDisposableHandle(
  backend: Pick<CustomLockBackend, "release" | "extend">,
  result: { lockId: string },
  key: string,
  onReleaseError?: OnReleaseError,
  disposeTimeoutMs?: number,
): DisposableLockHandle;

// ---------------------------------------------------------------------------------------------
// Diagnostics

export function owns<C extends BackendCapabilities>(
  backend: Pick<CustomLockBackend<C>, "lookup">,
  lockId: string,
  opts?: { signal?: AbortSignal | undefined },
): Promise<boolean>;

export function getByKey<C extends BackendCapabilities>(
  backend: Pick<CustomLockBackend<C>, "lookup">,
  key: string,
  opts?: { signal?: AbortSignal | undefined },
): Promise<LockInfo<C> | null>;

export function getById<C extends BackendCapabilities>(
  backend: Pick<CustomLockBackend<C>, "lookup">,
  lockId: string,
  opts?: { signal?: AbortSignal | undefined },
): Promise<LockInfo<C> | null>;

/** With the raw key and lockId: for debugging, not for logs. */
export function getByKeyRaw<C extends BackendCapabilities>(
  backend: Pick<CustomLockBackend<C>, "lookup">,
  key: string,
  opts?: { signal?: AbortSignal | undefined },
): Promise<LockInfoDebug<C> | null>;

/** With the raw key and lockId: for debugging, not for logs. */
export function getByIdRaw<C extends BackendCapabilities>(
  backend: Pick<CustomLockBackend<C>, "lookup">,
  lockId: string,
  opts?: { signal?: AbortSignal | undefined },
): Promise<LockInfoDebug<C> | null>;

/** With the raw key and lockId: for debugging, not for logs. */
export function lookupDebug<C extends BackendCapabilities>(
  backend: Pick<CustomLockBackend<C>, "lookup">,
  query: KeyLookup | OwnershipLookup,
): Promise<LockInfoDebug<C> | null>;

// ---------------------------------------------------------------------------------------------
// Telemetry

export interface LockEvent {
  type: "acquire" | "release" | "extend" | "isLocked" | "lookup";
  result: "ok" | "fail";
  reason?: "locked" | FailureReason;
  keyHash?: HashId;
  lockIdHash?: HashId;
  /** Only where `includeRaw` allows it. */
  key?: string;
  /** Only where `includeRaw` allows it. */
  lockId?: string;
}

export interface TelemetryOptions {
  /** Not awaited; whatever it throws is ignored. */
  onEvent: (event: LockEvent) => void;
  /**
   * Whether events carry the raw key and lockId. `true` still hides keys that look like secrets
   * ("token", "password", …); a function decides for each event. Default false.
   */
  includeRaw?: boolean | ((event: LockEvent) => boolean) | undefined;
}

/** The backend, with one event for each operation. */
export function withTelemetry<C extends BackendCapabilities>(
  backend: ManagedLockBackend<C>,
  options: TelemetryOptions,
): ManagedLockBackend<C>;
export function withTelemetry<C extends BackendCapabilities>(
  backend: CustomLockBackend<C>,
  options: TelemetryOptions,
): LockBackend<C>;

// ---------------------------------------------------------------------------------------------
// Keys, ids, fences, time

/** The key in NFC; throws when it is empty or longer than MAX_KEY_LENGTH_BYTES. */
export function normalizeAndValidateKey(key: string): string;
/** Throws unless it is 22 base64url characters. */
export function validateLockId(lockId: string): void;
export function hashKey(value: string): HashId;
export function generateLockId(): string;
/** `prefix:key`, or a hash in place of the key when that is longer than the limit. */
export function makeStorageKey(
  prefix: string,
  key: string,
  limitBytes: number,
  reserveBytes: number,
): string;

export function formatFence(value: number | bigint): Fence;
/** Warns that a fence comes near its limit. Never prints the key. */
export function logFenceWarning(fence: Fence, key?: string): void;
/** For code that takes any backend: those of this package always have a fence. */
export function hasFence<C extends BackendCapabilities>(
  result: AcquireOk<C> | AcquireLocked | AcquireResult<C>,
): result is AcquireOk<C> & DisposableLockHandle & { fence: Fence };

export function isLive(expiresAtMs: number, nowMs: number, toleranceMs: number): boolean;
export function calculateRedisServerTimeMs(
  timeTuple: readonly [string | number, string | number],
): number;

// ---------------------------------------------------------------------------------------------
// For custom backends

export type FailureReason = "expired" | "not-found";

/** Under this symbol a failed release or extend result says why, for telemetry: `{ reason }`. */
export const FAILURE_REASON: unique symbol;

/** What a release or extend found. "mismatch": the key is locked with another lockId. */
export type BackendObservation = "succeeded" | "expired" | "not-found" | "mismatch" | "unknown";

export interface FirestoreConditions {
  documentExists: boolean;
  ownershipValid: boolean;
  isLive: boolean;
}

export function mapBackendObservation(observation: BackendObservation): FailureReason | undefined;
export function mapToMutationResult(observation: BackendObservation): ReleaseResult;
export function mapToMutationResult(
  observation: BackendObservation,
  expiresAtMs: number,
): ExtendResult;
/** For the codes of the release and extend scripts: 1, 0, -1, -2, or `[1, expiresAtMs]`. */
export function mapRedisScriptResult(result: unknown): BackendObservation;
export function mapFirestoreConditions(conditions: FirestoreConditions): BackendObservation;

/** Hashes in place of the key and the lockId. */
export function sanitizeLockInfo<C extends BackendCapabilities>(
  raw: RawLockInfo,
  capabilities: C,
): LockInfo<C>;
/** Adds, out of sight, what getByKeyRaw and its kin return. Returns `info`. */
export function attachRawData<T extends object>(info: T, raw: { key: string; lockId: string }): T;

/** Throws LockError "Aborted" when the signal is aborted. */
export function checkAborted(signal?: AbortSignal): void;
export function delay(ms: number): Promise<void>;
/** With BACKEND_DEFAULTS for what is undefined. */
export function mergeBackendConfig<T extends object>(config?: T): { ttlMs: number } & T;
/** With LOCK_DEFAULTS for what is undefined. */
export function mergeAcquisitionConfig(
  acquisition?: AcquisitionOptions,
): Required<Omit<AcquisitionOptions, "signal">> & { signal?: AbortSignal | undefined };

// ---------------------------------------------------------------------------------------------
// Constants

export const MAX_KEY_LENGTH_BYTES: 512;
export const BACKEND_DEFAULTS: { readonly ttlMs: 30000 };
export const LOCK_DEFAULTS: {
  readonly maxRetries: 10;
  readonly retryDelayMs: 100;
  readonly timeoutMs: 5000;
  readonly backoff: "exponential";
  readonly jitter: "equal";
};
export const BACKEND_LIMITS: {
  readonly REDIS: 1000;
  readonly POSTGRES: 1700;
  readonly FIRESTORE: 1500;
};
export const RESERVE_BYTES: {
  readonly REDIS: 26;
  readonly POSTGRES: 0;
  readonly FIRESTORE: 0;
};
export const FENCE_THRESHOLDS: {
  readonly MAX: "900000000000000";
  readonly WARN: "090000000000000";
};
export const TIME_TOLERANCE_MS: 1000;
