// Handles: what an acquire returns beside its data, and how a lock ends with its scope.

import { checkHooks, LONGEST_TIMER_MS } from "../base/config.js";
import { checkBackend, invalidArgument, LockError, toError } from "../base/errors.js";
import { checkSignal } from "../base/signal.js";

/** @import { BackendHooks, CustomLockBackend, DisposableLockHandle, OnReleaseError, ReleaseResult } from "../../index.js" */

/**
 * How results and backends dispose, so that a decorator can keep to it.
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
 * The one release of a handle, and how it ends with its scope. What a release is, its kinds say.
 * Users never see it, so nothing is `#private`: that would cost a tenth of a whole acquire.
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
   * How the lock is given back. Never throws synchronously.
   * @param {AbortSignal} [_signal]
   * @returns {Promise<ReleaseResult>}
   */
  releaseLock(_signal) {
    throw new TypeError("A kind of disposal says how");
  }

  /**
   * At most one release reaches the backend. One that its signal forbids never started: dispose
   * will still release.
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
   * Never rejects: whoever leaves a scope cannot do anything about a failed release.
   * @returns {Promise<void>}
   */
  async dispose() {
    // A release that is on its way reports its own failure to whoever started it.
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
    // The signal asks the backend to give up; the race gives up even if the backend does not.
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

/** For a lock that a function gives back. */
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
 * Tells that a lock could not be given back: the user's callback or else, outside production, the
 * log. Never throws.
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

/** Whether a person may want to see what went wrong. */
export function isDebugging() {
  const { NODE_ENV, SYNCGUARD_DEBUG } = process.env;
  return NODE_ENV !== "production" || SYNCGUARD_DEBUG === "true";
}

/**
 * The message of a custom backend's error may name the lock: it is not for logs.
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
        "Unless it still arrives, the lock ends when its ttl does",
      { key, lockId },
    );
  }
}

/**
 * Calls a user's callback; whatever it does is its own affair.
 * @param {(...args: any[]) => unknown} callback
 * @param {...unknown} args
 */
export function notify(callback, ...args) {
  try {
    const result = /** @type {any} */ (callback(...args));
    if (typeof result?.then === "function") result.then(undefined, () => {});
  } catch {
    // By design.
  }
}

const failNothing = async () => /** @type {const} */ ({ ok: false });
const nothingToRelease = {
  reason: /** @type {const} */ ("locked"),
  release: failNothing,
  extend: failNothing,
  [Symbol.asyncDispose]: async () => {},
};
const neverHeld = () => new LockError("LockLost", "The lock was never held: another has it");
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

/** The result of an acquire that found the key locked. */
export function contended() {
  return new Contended();
}

/**
 * What any backend granted, with the methods of a handle.
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
 * The result of any backend's acquire, with a handle's methods. They are own properties that do
 * not depend on `this`: a result may be taken apart.
 * @param {Pick<CustomLockBackend, "release" | "extend">} backend
 * @param {any} result
 * @param {string} key
 * @param {OnReleaseError} [onReleaseError]
 * @param {number} [disposeTimeoutMs]
 * @returns {any}
 */
export function decorateAcquireResult(backend, result, key, onReleaseError, disposeTimeoutMs) {
  if (typeof result !== "object" || result === null) {
    throw invalidArgument("The result to decorate must be what a backend's acquire() returned");
  }
  if (!result.ok) return { ...result, ...nothingToRelease };
  const decorated = createDisposableHandle(backend, result, key, onReleaseError, disposeTimeoutMs);
  rememberHooks(decorated, { onReleaseError, disposeTimeoutMs });
  return decorated;
}

/**
 * Acquires on any backend; the result has a handle's methods whether or not the backend adds
 * them itself.
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
