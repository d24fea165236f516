// A held lock: how its holder learns of its state, and how it is released.

import {
  BAD_TTL,
  invalidArgument,
  LockError,
  RELEASED,
  replyError,
  thrownBehind,
} from "../base/errors.js";
import { offAbort, onAbort, reasonOf } from "../base/signal.js";
import { isTraced, startTrace } from "../native/tracing.js";
import { extendLock } from "../native/handle.js";
import { isAwaited, listen, settled, deliverCarried, unlisten } from "../native/bridge.js";
import { BEAT, ERROR, readReleased, UNSURE } from "../native/replies.js";

/** @import { ReleaseResult } from "../../index.js" */
/** @typedef {import("../native/engine.js").Engine} Engine */
/** @typedef {import("./config.js").LockPlan} LockPlan */
/** @typedef {import("./telemetry.js").Observer} Observer */

/** Locks whose heartbeats call JavaScript. They keep their backend alive until they end.
 * @type {Set<Held>} */
const keptAlive = new Set();
/** The size of `keptAlive` above which locks that were lost and never released are removed. */
let sweepAbove = 64;

export class Held {
  /** @type {AbortController | undefined} */
  #controller;
  /** @type {LockError | undefined} */
  #lost;
  #ended = false;
  #isListening = false;
  #engine;
  #plan;
  #observers;
  #number;
  #id;
  #heldSince;
  #trace;
  #expiresAtMs;
  /** @type {(() => void) | undefined} */
  #stopFollowing;

  /**
   * @param {Engine} engine
   * @param {LockPlan} plan
   * @param {readonly Observer[]} observers
   * @param {import("../native/replies.js").Grant} grant
   * @param {number} number by which the engine knows the hold
   */
  constructor(engine, plan, observers, grant, number) {
    const own = engine.callers?.grant(grant.lockId);
    // The engine does not keep the backend alive, and the lock may be the last reference to it.
    this.backend = engine.callers?.backend;
    this.lockId = own?.lockId ?? grant.lockId;
    this.fence = own === undefined ? grant.fence : own.fence;
    this.slot = (own ?? grant).slot ?? (plan.hasLimit ? 0 : undefined);
    this.key = plan.key;
    this.#expiresAtMs = own === undefined ? grant.expiresAtMs : own.expiresAtMs;
    this.#engine = engine;
    this.#plan = plan;
    this.#observers = observers;
    this.#number = number;
    // The engine's own lockId, which differs if the backend returns one of its own.
    this.#id = grant.lockId;
    this.#heldSince = 0;
    this.#trace = this.#startTrace("hold");
    if (observers.length > 0 || this.#trace !== undefined) this.#observe();
    if (plan.autoExtend && engine.needsJavascript) keepAlive(this);
  }

  /** @param {"hold" | "extend" | "release"} kind */
  #startTrace(kind) {
    const { name: backend } = this.#engine;
    const { key, name, mode } = this.#plan;
    const { lockId, slot } = this;
    return isTraced(kind)
      ? startTrace(kind, key, lockId, { backend, name, mode, slot })
      : undefined;
  }

  /** Listens to the engine, so that observers are notified of a loss when it happens. */
  #observe() {
    this.#heldSince = performance.now();
    this.#listen();
  }

  get expiresAtMs() {
    if (!this.#ended) {
      const latest = this.#engine.native.holdExpiresAt(this.#number);
      if (latest > 0) this.#expiresAtMs = latest;
    }
    return this.#expiresAtMs;
  }

  /**
   * Created on first access, because most locks never need it.
   * @returns {AbortSignal}
   */
  get signal() {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (!this.#ended) this.#watch(this.#controller);
    }
    return this.#controller.signal;
  }

  /** @param {AbortController} controller */
  #watch(controller) {
    const lost = this.lost();
    if (lost !== undefined) return controller.abort(lost);
    const { signal } = this.#plan;
    if (signal !== undefined) {
      const abort = () => controller.abort(reasonOf(signal));
      if (signal.aborted) return abort();
      onAbort(signal, abort);
      this.#stopFollowing = () => offAbort(signal, abort);
    }
    this.#listen();
  }

  #listen() {
    if (this.#isListening) return;
    this.#isListening = true;
    listen(this.#number, (message) => this.#onMessage(message));
    this.#engine.native.listenHold(this.#number, this.#observers.length > 0);
  }

  /** @param {string} message */
  #onMessage(message) {
    const tag = message.charCodeAt(0);
    if (tag === ERROR) this.#lose(replyError(message, this.#context));
    if (tag !== BEAT) return;
    const failure = message.length > 1 ? replyError(message.slice(1)) : undefined;
    this.#emit("heartbeat", failure);
  }

  /** @param {LockError} error */
  #lose(error) {
    if (this.#lost !== undefined || this.#ended) return;
    this.#lost = error;
    keptAlive.delete(this);
    this.#trace?.fail(error);
    this.#emit("lost", error, { heldMs: performance.now() - this.#heldSince });
    this.#controller?.abort(error);
  }

  /**
   * @param {"heartbeat" | "lost" | "extend" | "release"} type
   * @param {LockError | undefined} error
   * @param {object} [more]
   */
  #emit(type, error, more) {
    const { key, mode, name } = this.#plan;
    for (const observer of this.#observers) {
      observer.emit(type, key, this.lockId, error, {
        backend: this.#engine.name,
        name,
        mode,
        slot: this.slot,
        ...more,
      });
    }
  }

  get #context() {
    return { key: this.#plan.key, lockId: this.lockId };
  }

  /**
   * Returns whether this is a held lock on the key, in the engine's store.
   * @param {Engine} engine
   * @param {string} key
   */
  isOf(engine, key) {
    if (this.#engine !== engine || !this.isHeld()) return false;
    return this.#plan.key.normalize() === key.normalize();
  }

  get isEnded() {
    return this.#ended;
  }

  /**
   * Returns whether the lock is certainly held, and for at least `forMs` longer.
   * @param {number} [forMs]
   */
  isHeld(forMs = 0) {
    return !this.#ended && this.#engine.native.heldFor(this.#number) > forMs;
  }

  /**
   * Returns the error that says why the lock was lost, or `undefined` if it is still held or was
   * released.
   * @returns {LockError | undefined}
   */
  lost() {
    if (this.#lost === undefined && !this.#ended && !this.isHeld()) {
      const lost = this.#engine.native.holdLost(this.#number);
      if (typeof lost === "string") this.#lose(replyError(lost, this.#context));
    }
    return this.#lost;
  }

  throwIfLost() {
    const lost = this.lost();
    if (lost !== undefined) throw lost;
    if (this.#ended) throw new LockError("LockLost", RELEASED, this.#context);
  }

  /** @param {number} [ttlMs] */
  async extend(ttlMs = this.#plan.ttlMs) {
    if (typeof ttlMs !== "number") throw invalidArgument(BAD_TTL);
    if (this.#ended) return /** @type {const} */ ({ ok: false });
    const started = performance.now();
    const done = () => ({ durationMs: performance.now() - started });
    const trace = this.#startTrace("extend");
    try {
      const result = await extendLock(this.#engine.native, this.#id, ttlMs);
      trace?.end(result.ok);
      this.#emit("extend", undefined, { ...done(), outcome: result });
      return result;
    } catch (error) {
      trace?.fail(error);
      trace?.end(false);
      this.#emit("extend", /** @type {LockError} */ (error), done());
      throw error;
    }
  }

  /**
   * Releases the lock. Must be called only once.
   * @returns {ReleaseResult | Promise<ReleaseResult>} no promise if the store answers at once
   */
  end() {
    const trace = this.#startTrace("release");
    const started = this.#observers.length === 0 ? 0 : performance.now();
    const { native } = this.#engine;
    // The next waiter in this process may get the lock with this reply, without another wake-up.
    const mayCarry = isAwaited();
    let reply = native.endHold(this.#number, mayCarry, this.#lost !== undefined);
    if (reply === UNSURE) {
      this.lost();
      reply = native.endHold(this.#number, mayCarry, true);
    }
    this.#ended = true;
    keptAlive.delete(this);
    this.#stopFollowing?.();
    if (typeof reply !== "string") {
      return settled(reply).then((answer) => this.#conclude(answer, trace, started));
    }
    deliverCarried(reply);
    return this.#conclude(reply, trace, started);
  }

  /**
   * @param {string} reply
   * @param {ReturnType<typeof startTrace>} trace
   * @param {number} started
   */
  #conclude(reply, trace, started) {
    const { callers } = this.#engine;
    const done = () => {
      const now = performance.now();
      return { durationMs: now - started, heldMs: started - this.#heldSince };
    };
    try {
      const result = readReleased(reply, this.#context);
      trace?.end(result.ok);
      if (this.#observers.length > 0) {
        this.#emit("release", undefined, { ...done(), outcome: result });
      }
      return result;
    } catch (error) {
      trace?.fail(error);
      trace?.end(false);
      this.#emit("release", /** @type {LockError} */ (error), done());
      // An error that a release in JavaScript threw reaches the caller unchanged.
      throw callers === undefined ? error : thrownBehind(error);
    } finally {
      this.#trace?.end(this.#lost === undefined);
      if (this.#isListening) unlisten(this.#number);
      callers?.forget(this.#id);
    }
  }
}

/** @param {Held} held */
function keepAlive(held) {
  keptAlive.add(held);
  if (keptAlive.size <= sweepAbove) return;
  for (const one of keptAlive) {
    if (one.lost() !== undefined) keptAlive.delete(one);
  }
  sweepAbove = 2 * keptAlive.size + 64;
}
