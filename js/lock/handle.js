// Handles: what an acquire returns beside its data, and how a lock ends with its scope.

import { checkHooks, LONGEST_TIMER_MS } from "../base/config.js";
import { checkBackend, invalidArgument, LockError, toError } from "../base/errors.js";
import { checkSignal } from "../base/signal.js";

/** @import { BackendHooks, CustomLockBackend, DisposableLockHandle, ExtendResult, OnReleaseError, ReleaseResult } from "../../index.js" */

/**
 * The two operations a handle needs. They never throw synchronously.
 * @typedef {object} HandleOps
 * @property {(lockId: string, key: string, signal?: AbortSignal) => Promise<ReleaseResult>} release
 * @property {(lockId: string, ttlMs: number, signal?: AbortSignal) => Promise<ExtendResult>} extend
 */

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
 * @param {object} result
 * @param {object} backend
 * @returns {BackendHooks | undefined}
 */
export function hooksOf(result, backend) {
  return knownHooks.get(result) ?? knownHooks.get(backend);
}

/** What a handle remembers: whether its one release has been started. */
export class Held {
  /**
   * @param {HandleOps} ops
   * @param {string} lockId
   * @param {string} key
   * @param {BackendHooks} hooks
   */
  constructor(ops, lockId, key, hooks) {
    this.ops = ops;
    this.lockId = lockId;
    this.key = key;
    this.hooks = hooks;
    /** @type {Promise<ReleaseResult> | undefined} */
    this.released = undefined;
  }

  /**
   * At most one release reaches the backend. One that its signal forbids never started: dispose
   * will still release.
   * @param {AbortSignal} [signal]
   * @returns {Promise<ReleaseResult>}
   */
  release(signal) {
    if (signal !== undefined) return this.#releaseWithSignal(signal);
    if (this.released !== undefined) return Promise.resolve({ ok: false });
    return (this.released = this.ops.release(this.lockId, this.key));
  }

  /** @param {AbortSignal} signal */
  async #releaseWithSignal(signal) {
    checkSignal(signal, { key: this.key, lockId: this.lockId });
    if (this.released !== undefined) return /** @type {const} */ ({ ok: false });
    return await (this.released = this.ops.release(this.lockId, this.key, signal));
  }

  /**
   * Never rejects: whoever leaves a scope cannot do anything about a failed release.
   * @returns {Promise<void>}
   */
  async dispose() {
    // A release that is on its way reports its own failure to whoever started it.
    const own = this.released === undefined;
    try {
      await this.#releaseWithin(this.hooks.disposeTimeoutMs);
    } catch (error) {
      if (own || error instanceof DisposeTimeout) notify(() => this.#report(toError(error)));
    }
  }

  /**
   * @param {number | undefined} timeoutMs
   * @returns {Promise<unknown>}
   */
  #releaseWithin(timeoutMs) {
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

  /** @param {Error} error */
  #report(error) {
    const { onReleaseError } = this.hooks;
    if (onReleaseError !== undefined) {
      notify(onReleaseError, error, { lockId: this.lockId, key: this.key, source: "disposal" });
      return;
    }
    const { NODE_ENV, SYNCGUARD_DEBUG } = process.env;
    if (NODE_ENV === "production" && SYNCGUARD_DEBUG !== "true") return;
    console.error("[SyncGuard] Lock disposal failed:", {
      error: this.#redact(String(error.message)),
      errorName: error.name,
      ...(error instanceof LockError && { code: error.code }),
      source: "disposal",
    });
  }

  /**
   * The message of a custom backend's error may name the lock: it is not for logs.
   * @param {string} text
   */
  #redact(text) {
    for (const secret of [this.lockId, this.key]) {
      if (typeof secret === "string" && secret !== "") text = text.replaceAll(secret, "[redacted]");
    }
    return text;
  }
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
      `The release did not finish within disposeTimeoutMs (${timeoutMs} ms): ` +
        "unless it still arrives, the lock ends when its ttl does",
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
const disposeNothing = async () => {};

/** The result of an acquire that found the key locked. */
export function contended() {
  return {
    ok: /** @type {const} */ (false),
    reason: /** @type {const} */ ("locked"),
    release: failNothing,
    extend: failNothing,
    [Symbol.asyncDispose]: disposeNothing,
  };
}

/**
 * @param {any} backend any object with release and extend
 * @returns {HandleOps}
 */
function opsOf(backend) {
  return {
    release: async (lockId, _key, signal) =>
      await backend.release(signal === undefined ? { lockId } : { lockId, signal }),
    extend: async (lockId, ttlMs, signal) =>
      await backend.extend(signal === undefined ? { lockId, ttlMs } : { lockId, ttlMs, signal }),
  };
}

/**
 * The methods of a handle for a lock that any backend granted.
 * @param {Pick<CustomLockBackend, "release" | "extend">} backend
 * @param {{ lockId: string }} result
 * @param {string} key
 * @param {OnReleaseError} [onReleaseError]
 * @param {number} [disposeTimeoutMs]
 * @returns {DisposableLockHandle}
 */
export function createDisposableHandle(backend, result, key, onReleaseError, disposeTimeoutMs) {
  checkBackend(backend, ["release", "extend"]);
  const hooks = checkHooks(onReleaseError, disposeTimeoutMs);
  const { lockId } = result;
  const ops = opsOf(backend);
  const held = new Held(ops, lockId, key, hooks);
  return {
    release: (/** @type {AbortSignal | undefined} */ signal) => held.release(signal),
    extend: (/** @type {number} */ ttlMs, /** @type {AbortSignal | undefined} */ signal) =>
      ops.extend(lockId, ttlMs, signal),
    [Symbol.asyncDispose]: () => held.dispose(),
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
  if (!result.ok) return { ...result, ...contended() };
  const handle = createDisposableHandle(backend, result, key, onReleaseError, disposeTimeoutMs);
  const decorated = { ...result, ...handle };
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
  checkBackend(backend, ["acquire", "release", "extend"]);
  const result = await backend.acquire(opts);
  if (typeof result?.[Symbol.asyncDispose] === "function") return result;
  return decorateAcquireResult(backend, result, opts.key);
}
