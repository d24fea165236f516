// Handles: the methods of a lock that was acquired.

import type {
  BackendCapabilities,
  CustomLockBackend,
  KeyOp,
  ManagedLockBackend,
  OnReleaseError,
} from "./backend.js";
import type {
  AcquireResult,
  DecoratedAcquireResult,
  DisposableLockHandle,
  ManagedAcquireResult,
} from "./results.js";

/**
 * Adds a handle's methods to what any backend's acquire returned.
 *
 * @example
 * const acquire = async (opts) =>
 *   decorateAcquireResult(backend, await attempt(opts), opts.key, onReleaseError);
 */
export function decorateAcquireResult<C extends BackendCapabilities>(
  backend: Pick<CustomLockBackend<C>, "release" | "extend">,
  result: AcquireResult<C>,
  key: string,
  onReleaseError?: OnReleaseError,
  disposeTimeoutMs?: number,
): DecoratedAcquireResult<C>;

/**
 * Acquires on any backend; the result always has a handle's methods.
 *
 * @example
 * await using held = await acquireHandle(backend, { key: "report", ttlMs: 30_000 });
 */
export function acquireHandle<C extends BackendCapabilities>(
  backend: Pick<ManagedLockBackend<C>, "acquire">,
  opts: KeyOp & Readonly<{ ttlMs: number }>,
): Promise<ManagedAcquireResult<C>>;
export function acquireHandle<C extends BackendCapabilities>(
  backend: { acquire: (opts: any) => Promise<DecoratedAcquireResult<C>> },
  opts: KeyOp & Readonly<{ ttlMs: number }>,
): Promise<DecoratedAcquireResult<C>>;
export function acquireHandle<C extends BackendCapabilities>(
  backend: Pick<CustomLockBackend<C>, "acquire" | "release" | "extend">,
  opts: KeyOp & Readonly<{ ttlMs: number }>,
): Promise<DecoratedAcquireResult<C>>;

/** The data of a lock that was acquired, together with a handle's methods. */
export function createDisposableHandle<R extends { lockId: string }>(
  backend: Pick<CustomLockBackend, "release" | "extend">,
  result: R,
  key: string,
  onReleaseError?: OnReleaseError,
  disposeTimeoutMs?: number,
): R & DisposableLockHandle;
