// A request for a lock, from the call of request() until its promise is settled.

import { AsyncResource } from "node:async_hooks";
import { makeLock } from "./interface.js";
import { addAlgorithm, removeAlgorithm } from "./signals.js";

/** @typedef {import("./arguments.js").Wanted} Wanted */
/** @typedef {import("./turns.js").Turn} Turn */

/**
 * A wait for a lock that another process holds.
 * @typedef {object} Wait
 * @property {AbortController} cancel
 * @property {Promise<Outcome>} outcome
 */

/**
 * The outcome of an attempt or a wait: a held lock, `null` if it is held elsewhere, or an error.
 * @typedef {{ handle: any, error?: undefined } | { handle?: undefined, error: any }} Outcome
 */

export class Request {
  /** Whether the signal was aborted, or the manager closed, before the callback was called. */
  isAborted = false;
  /** @type {Wait | undefined} */
  wait;
  /** @type {(value: unknown) => void} */
  resolve = () => {};
  /** @type {(reason: unknown) => void} */
  reject = () => {};
  #callback;
  #signal;
  /** @type {(() => void) | undefined} */
  #onAbort;
  /** The asynchronous context of the caller, for AsyncLocalStorage and traces. */
  #context = new AsyncResource("SyncGuardLockRequest", { requireManualDestroy: true });

  /**
   * @param {Wanted} wanted
   * @param {{ clientId: string, ttlMs: number | undefined }} client
   * @param {Turn} turn
   */
  constructor({ name, mode, ifAvailable, steal, signal, callback }, { clientId, ttlMs }, turn) {
    this.name = name;
    /** @type {"shared" | "exclusive"} */
    this.mode = mode;
    this.ifAvailable = ifAvailable;
    this.steal = steal;
    this.clientId = clientId;
    this.ttlMs = ttlMs;
    this.turn = turn;
    this.#signal = signal;
    this.#callback = callback;
    /** @type {Promise<any>} the lock's "released promise" */
    this.promise = new Promise((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
  }

  /** @param {() => void} onAbort called after the promise was rejected */
  listen(onAbort) {
    const signal = this.#signal;
    if (signal === undefined) return;
    this.#onAbort = () => {
      this.abort(signal.reason);
      onAbort();
    };
    try {
      addAlgorithm(signal, this.#onAbort);
    } catch (error) {
      this.abort(error);
    }
  }

  unlisten() {
    if (this.#onAbort === undefined || this.#signal === undefined) return;
    removeAlgorithm(this.#signal, this.#onAbort);
    this.#onAbort = undefined;
  }

  /** @param {unknown} reason */
  abort(reason) {
    this.isAborted = true;
    this.fail(reason);
  }

  /** @param {unknown} error */
  fail(error) {
    this.unlisten();
    this.reject(error);
  }

  /**
   * Calls the callback in the context of the caller. The returned promise has the outcome of the callback,
   * which may also throw.
   * @param {boolean} isGranted
   * @returns {Promise<any>}
   */
  call(isGranted) {
    const callback = this.#callback;
    const lock = isGranted ? makeLock(this.name, this.mode) : null;
    return new Promise((resolve) => resolve(this.inContext(() => callback(lock))));
  }

  /**
   * @template T
   * @param {() => T} fn
   * @returns {T}
   */
  inContext(fn) {
    return this.#context.runInAsyncScope(fn);
  }
}
