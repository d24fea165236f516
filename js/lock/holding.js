// A lock while fn runs: what fn is told about it, and how it learns that the lock is lost.

import { LONGEST_TIMER_MS } from "../base/config.js";
import { LockError } from "../base/errors.js";
import { unwatchExtensions, watchExtensions } from "./extensions.js";
import { offAbort, onAbort, reasonOf } from "../base/signal.js";

export class Holding {
  /** @type {AbortController | undefined} */
  #controller;
  /** @type {NodeJS.Timeout | undefined} */
  #timer;
  /** @type {LockError | undefined} */
  #lost;
  #ended = false;
  #lockId;
  #expiresAtMs;
  #validUntil;
  #userSignal;
  #heartbeat;
  /** @type {(() => void) | undefined} */
  #unlisten;

  /**
   * @param {string} lockId
   * @param {number} expiresAtMs
   * @param {number} validUntil on performance.now()'s clock; Infinity when a heartbeat watches it
   * @param {AbortSignal | undefined} userSignal
   * @param {{ expiresAtMs(): number, stop(): void }} [heartbeat] a native one
   */
  constructor(lockId, expiresAtMs, validUntil, userSignal, heartbeat) {
    this.#lockId = lockId;
    this.#expiresAtMs = expiresAtMs;
    this.#validUntil = validUntil;
    this.#userSignal = userSignal;
    this.#heartbeat = heartbeat;
    watchExtensions(lockId, this);
  }

  get lost() {
    return this.#lost !== undefined;
  }

  get expiresAtMs() {
    if (this.#heartbeat !== undefined && !this.#ended) {
      this.#expiresAtMs = Math.max(this.#expiresAtMs, this.#heartbeat.expiresAtMs());
    }
    return this.#expiresAtMs;
  }

  /**
   * Made when fn asks for it: most never do, and then there is no timer.
   * @returns {AbortSignal}
   */
  get signal() {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (!this.#ended) this.#startWatching();
    }
    return this.#controller.signal;
  }

  #startWatching() {
    if (this.#lost !== undefined) {
      this.#controller?.abort(this.#lost);
      return;
    }
    const signal = this.#userSignal;
    if (signal !== undefined) {
      const abort = () => this.#controller?.abort(reasonOf(signal));
      if (signal.aborted) {
        abort();
        return;
      }
      onAbort(signal, abort);
      this.#unlisten = () => offAbort(signal, abort);
    }
    this.#watchDeadline();
  }

  #watchDeadline() {
    clearTimeout(this.#timer);
    const left = this.#validUntil - performance.now();
    if (left <= 0) {
      this.lose(
        new LockError(
          "LockLost",
          "The lock's time passed while fn was running: others may hold it now. " +
            "Use a longer ttlMs, or autoExtend",
          { lockId: this.#lockId },
        ),
      );
    } else if (left !== Infinity) {
      this.#timer = setTimeout(() => this.#watchDeadline(), Math.min(left, LONGEST_TIMER_MS));
      this.#timer.unref?.();
    }
  }

  /** @param {LockError} error */
  lose(error) {
    if (this.#ended || this.#lost !== undefined) return;
    this.#lost = error;
    clearTimeout(this.#timer);
    this.#controller?.abort(error);
  }

  /**
   * @param {number} expiresAtMs
   * @param {number} validUntil
   */
  extended(expiresAtMs, validUntil) {
    this.#expiresAtMs = expiresAtMs;
    if (this.#validUntil === Infinity) return;
    this.#validUntil = validUntil;
    if (this.#timer !== undefined && this.#lost === undefined) this.#watchDeadline();
  }

  end() {
    this.#ended = true;
    this.#heartbeat?.stop();
    clearTimeout(this.#timer);
    this.#unlisten?.();
    unwatchExtensions(this.#lockId);
  }
}

/**
 * What fn receives. Own properties, so that it may be spread or listed.
 * @param {string} lockId
 * @param {string | undefined} fence
 * @param {Holding} holding
 */
export function contextOf(lockId, fence, holding) {
  return {
    lockId,
    fence,
    get expiresAtMs() {
      return holding.expiresAtMs;
    },
    get signal() {
      return holding.signal;
    },
  };
}
