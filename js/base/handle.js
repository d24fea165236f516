// Handles: the methods that acquire() adds to its data, and the release at the end of a scope.

import { checkHooks, LONGEST_TIMER_MS } from "./config.js";
import { checkBackend, invalidArgument, LockError, toError } from "./errors.js";
import { checkSignal } from "./signal.js";

/** @import { BackendHooks, CustomLockBackend, DisposableLockHandle, OnReleaseError, ReleaseResult } from "../../index.js" */

/**
 * The disposal options of results and backends, so that decorated ones behave the same.
 * @type {WeakMap<object, BackendHooks>}
 */
const knownHooks = new WeakMap();

/**
 * @param {object} owner a backend, or a result of one
 * @param {BackendHooks} hooks
 */
export function rememberHooks(owner, hooks) {
  if (hooks.onReleaseError !== undefined || hooks.disposeTimeoutMs !== undefined) {
    knownHooks.set(owner, hooks);
  }
}

/**
 * @param {object} owner
 * @returns {BackendHooks | undefined}
 */
export function hooksOf(owner) {
  return knownHooks.get(owner);
}

/**
 * Releases a lock at most once, by call or at the end of its scope. Subclasses implement the release.
 * Users never see this object, so nothing is `#private`: that would cost a tenth of a whole acquire.
 */
export class Disposal {
  /**
   * @param {string} lockId
   * @param {string} key
   * @param {BackendHooks} hooks
   */
  constructor(lockId, key, hooks) {
    this.lockId = lockId;
    this.key = key;
    this.hooks = hooks;
    /** @type {Promise<ReleaseResult> | undefined} */
    this.released = undefined;
  }

  /**
   * Releases the lock. Never throws synchronously.
   * @param {AbortSignal} [_signal]
   * @returns {Promise<ReleaseResult>}
   */
  releaseLock(_signal) {
    throw new TypeError("A subclass must implement releaseLock()");
  }

  /**
   * Releases the lock unless that was done before. A release whose signal is already aborted does not
   * count: dispose() will still release.
   * @param {AbortSignal} [signal]
   * @returns {Promise<ReleaseResult>}
   */
  release(signal) {
    if (signal !== undefined) return this.releaseWithSignal(signal);
    if (this.released !== undefined) return Promise.resolve({ ok: false });
    return (this.released = this.releaseLock());
  }

  /** @param {AbortSignal} signal */
  async releaseWithSignal(signal) {
    checkSignal(signal, { key: this.key, lockId: this.lockId });
    if (this.released !== undefined) return /** @type {const} */ ({ ok: false });
    return await (this.released = this.releaseLock(signal));
  }

  /**
   * Never rejects: the code that leaves a scope cannot do anything about a failed release.
   * @returns {Promise<void>}
   */
  async dispose() {
    // A release that is already in flight reports its failure to the caller that started it.
    const own = this.released === undefined;
    try {
      await this.releaseWithin(this.hooks.disposeTimeoutMs);
    } catch (error) {
      if (own || error instanceof DisposeTimeout) {
        reportReleaseError(error, this.lockId, this.key, this.hooks.onReleaseError);
      }
    }
  }

  /**
   * @param {number | undefined} timeoutMs
   * @returns {Promise<unknown>}
   */
  releaseWithin(timeoutMs) {
    if (timeoutMs === undefined) return this.released ?? this.release();
    // The signal asks the backend to stop. The race ends the wait even if the backend ignores the signal.
    const controller = new AbortController();
    /** @type {NodeJS.Timeout | undefined} */
    let timer;
    const timeout = new Promise((_, reject) => {
      timer = setTimeout(
        () => {
          const error = new DisposeTimeout(timeoutMs, this.key, this.lockId);
          reject(error);
          controller.abort(error);
        },
        Math.min(timeoutMs, LONGEST_TIMER_MS),
      );
    });
    const work = this.released ?? this.release(controller.signal);
    return Promise.race([work, timeout]).finally(() => clearTimeout(timer));
  }
}

/** Releases a lock by calling a function. */
export class DisposalBy extends Disposal {
  /**
   * @param {(signal?: AbortSignal) => Promise<ReleaseResult>} releaseLock never throws synchronously
   * @param {string} lockId
   * @param {string} key
   * @param {BackendHooks} hooks
   */
  constructor(releaseLock, lockId, key, hooks) {
    super(lockId, key, hooks);
    this.releaseLock = releaseLock;
  }
}

/**
 * Reports a failed release to the user's callback or else, outside production, to the log. Never
 * throws.
 * @param {unknown} thrown
 * @param {string} lockId
 * @param {string} key
 * @param {OnReleaseError | undefined} onReleaseError
 */
export function reportReleaseError(thrown, lockId, key, onReleaseError) {
  const error = toError(thrown);
  if (onReleaseError !== undefined) {
    notify(onReleaseError, error, { lockId, key, source: "disposal" });
    return;
  }
  if (!isDebugging()) return;
  notify(() =>
    console.error("[SyncGuard] Lock disposal failed:", {
      error: redacted(String(error.message), [lockId, key]),
      errorName: error.name,
      ...(error instanceof LockError && { code: error.code }),
      source: "disposal",
    }),
  );
}

/** Returns whether failures that nobody awaits are logged. */
export function isDebugging() {
  const { NODE_ENV, SYNCGUARD_DEBUG } = process.env;
  return NODE_ENV !== "production" || SYNCGUARD_DEBUG === "true";
}

/**
 * Removes keys and lockIds from a text: the error of a custom backend may contain them.
 * @param {string} text
 * @param {unknown[]} secrets
 */
function redacted(text, secrets) {
  for (const secret of secrets) {
    if (typeof secret === "string" && secret !== "") text = text.replaceAll(secret, "[redacted]");
  }
  return text;
}

class DisposeTimeout extends LockError {
  /**
   * @param {number} timeoutMs
   * @param {string} key
   * @param {string} lockId
   */
  constructor(timeoutMs, key, lockId) {
    super(
      "NetworkTimeout",
      `The release timed out: it did not finish within disposeTimeoutMs (${timeoutMs} ms). ` +
        "If it does not arrive later, the lock stays held until its TTL expires. " +
        "Raise disposeTimeoutMs if the store is slow",
      { key, lockId },
    );
  }
}

/**
 * Calls a user's callback and ignores its errors.
 * @param {(...args: any[]) => unknown} callback
 * @param {...unknown} args
 */
export function notify(callback, ...args) {
  try {
    const result = /** @type {any} */ (callback(...args));
    if (typeof result?.then === "function") result.then(undefined, () => {});
  } catch {
    // A callback must not disturb the operation that it observes.
  }
}

const failNothing = async () => /** @type {const} */ ({ ok: false });
const nothingToRelease = {
  reason: /** @type {const} */ ("locked"),
  release: failNothing,
  extend: failNothing,
  [Symbol.asyncDispose]: async () => {},
};
const neverHeld = () =>
  new LockError(
    "LockLost",
    "The lock was never held: acquire() was refused, because another holder has it. Check `ok` first",
  );
/** @type {AbortSignal | undefined} */
let neverHeldSignal;

class Contended {
  ok = /** @type {const} */ (false);
  reason = nothingToRelease.reason;
  release = failNothing;
  extend = failNothing;
  isHeld = () => false;
  throwIfLost = () => {
    throw neverHeld();
  };
  [Symbol.asyncDispose] = nothingToRelease[Symbol.asyncDispose];

  get signal() {
    return (neverHeldSignal ??= AbortSignal.abort(neverHeld()));
  }
}

/** Returns the result of an acquire that found the key locked. */
export function contended() {
  return new Contended();
}

/**
 * Returns the lock that any backend granted, with the methods of a handle.
 * @template {{ lockId: string }} R
 * @param {Pick<CustomLockBackend, "release" | "extend">} backend
 * @param {R} result
 * @param {string} key
 * @param {OnReleaseError} [onReleaseError]
 * @param {number} [disposeTimeoutMs]
 * @returns {R & DisposableLockHandle}
 */
export function createDisposableHandle(backend, result, key, onReleaseError, disposeTimeoutMs) {
  checkBackend(backend, ["release", "extend"]);
  const hooks = checkHooks(onReleaseError, disposeTimeoutMs);
  const { lockId } = result;
  const release = async (/** @type {AbortSignal | undefined} */ signal) =>
    await backend.release(signal === undefined ? { lockId } : { lockId, signal });
  const disposal = new DisposalBy(release, lockId, key, hooks);
  return {
    ...result,
    release: (/** @type {AbortSignal | undefined} */ signal) => disposal.release(signal),
    extend: async (/** @type {number} */ ttlMs, /** @type {AbortSignal | undefined} */ signal) =>
      await backend.extend(signal === undefined ? { lockId, ttlMs } : { lockId, ttlMs, signal }),
    [Symbol.asyncDispose]: () => disposal.dispose(),
  };
}

/**
 * Returns the result of any backend's acquire with the methods of a handle. They are own properties
 * that do not depend on `this`, so the result can be destructured.
 * @param {Pick<CustomLockBackend, "release" | "extend">} backend
 * @param {any} result
 * @param {string} key
 * @param {OnReleaseError} [onReleaseError]
 * @param {number} [disposeTimeoutMs]
 * @returns {any}
 */
export function decorateAcquireResult(backend, result, key, onReleaseError, disposeTimeoutMs) {
  if (typeof result !== "object" || result === null) {
    throw invalidArgument(
      "decorateAcquireResult() got no result to decorate: pass the object that acquire() returned",
    );
  }
  if (!result.ok) return { ...result, ...nothingToRelease };
  const decorated = createDisposableHandle(backend, result, key, onReleaseError, disposeTimeoutMs);
  rememberHooks(decorated, { onReleaseError, disposeTimeoutMs });
  return decorated;
}

/**
 * Acquires a lock on any backend. The result has the methods of a handle even if the backend does not
 * add them.
 * @param {any} backend
 * @param {{ key: string, ttlMs: number, signal?: AbortSignal }} opts
 * @returns {Promise<any>}
 */
export async function acquireHandle(backend, opts) {
  checkBackend(backend, ["acquire"]);
  const result = await backend.acquire(opts);
  if (typeof result?.[Symbol.asyncDispose] === "function") return result;
  return decorateAcquireResult(backend, result, opts.key);
}
