// Handles: the methods of an acquired lock.

import type {
  BackendCapabilities,
  CustomLockBackend,
  AcquireOp,
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
 * Adds the methods of a handle to the result of a backend's acquire.
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
 * Acquires a lock on any backend. The result always has the methods of a handle.
 *
 * @example
 * await using held = await acquireHandle(backend, { key: "report", ttlMs: 30_000 });
 */
export function acquireHandle<C extends BackendCapabilities>(
  backend: Pick<ManagedLockBackend<C>, "acquire">,
  opts: AcquireOp,
): Promise<ManagedAcquireResult<C>>;
export function acquireHandle<C extends BackendCapabilities>(
  backend: { acquire: (opts: any) => Promise<DecoratedAcquireResult<C>> },
  opts: AcquireOp,
): Promise<DecoratedAcquireResult<C>>;
export function acquireHandle<C extends BackendCapabilities>(
  backend: Pick<CustomLockBackend<C>, "acquire" | "release" | "extend">,
  opts: AcquireOp,
): Promise<DecoratedAcquireResult<C>>;

/** Returns the data of an acquired lock together with the methods of a handle. */
export function createDisposableHandle<R extends { lockId: string }>(
  backend: Pick<CustomLockBackend, "release" | "extend">,
  result: R,
  key: string,
  onReleaseError?: OnReleaseError,
  disposeTimeoutMs?: number,
): R & DisposableLockHandle;
