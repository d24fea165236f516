// Acquires a lock to hold. The whole wait is one call of the engine.

import { replyError } from "../base/errors.js";
import { isTraced, startTrace } from "../native/tracing.js";
import { confirm, returnedId, settled, settledOrAborted, unlisten } from "../native/bridge.js";
import { isGrant, LOCKED, readGrant, readNumber, readProgress } from "../native/replies.js";
import { cancelled, checkNotCancelled } from "./config.js";
import { Held } from "./held.js";
import { explained } from "./nesting.js";
import { accessTo, observerOf } from "./telemetry.js";

/** @import { LockError } from "../base/errors.js" */
/** @typedef {import("../native/engine.js").Engine} Engine */
/** @typedef {import("./config.js").LockPlan} LockPlan */
/** @typedef {import("./telemetry.js").Observer} Observer */

/**
 * The acquisition of one lock, with its wait:
 *
 *     const acquisition = new Acquisition(backend, plan, true);
 *     while (acquisition.held === undefined) acquisition.onReply(await acquisition.answer());
 *
 * No promise lies between the moment when the lock is known to be held and the caller's next step, and
 * none is created if there is nothing to wait for.
 */
export class Acquisition {
  /** `null` if another holds the lock and this acquisition does not wait. `undefined` until it is known.
   * @type {Held | null | undefined} */
  held;
  #engine;
  #plan;
  #observers;
  #caller;
  /** Reports the wait to observers and traces, if there are any. */
  #account;
  /** The id of the engine's answer; 0 if the answer was returned at once. */
  #id = 0;

  /**
   * @param {any} backend any LockBackend
   * @param {LockPlan} plan
   * @param {boolean} wait
   */
  constructor(backend, plan, wait) {
    const { engine, observers } = accessTo(backend, plan.autoExtend === true);
    // Heartbeats of a user's own backend depend on the event loop, so they are off by default.
    const autoExtend = (plan.autoExtend ??= engine.isNative);
    const { key, ttlMs, limits, onEvent } = plan;
    this.#engine = engine;
    this.#plan = plan;
    this.#observers = onEvent === undefined ? observers : [...observers, observerOf({ onEvent })];
    if (this.#observers.length > 0 || isTraced("acquire")) {
      this.#account = new Account(engine, plan, this.#observers);
    }
    this.#caller = engine.callers?.enter(plan.signal) ?? 0;
    const cancellable = isCancellable(plan);
    const { native } = engine;
    this.#goOn(native.hold(key, ttlMs, wait, autoExtend, cancellable, this.#caller, limits), true);
  }

  /**
   * Returns the engine's answer, or the signal that cancelled the wait. Pass it to `onReply`.
   * @returns {Promise<string | AbortSignal>}
   */
  answer() {
    const { signal, acquisitionSignal } = this.#plan;
    const first = signal ?? acquisitionSignal;
    if (first === undefined) return settled(this.#id);
    const second = first === signal ? acquisitionSignal : undefined;
    return settledOrAborted(this.#engine.native, this.#id, first, second).catch((error) =>
      this.#fail(error),
    );
  }

  /** @param {string | AbortSignal} answer */
  onReply(answer) {
    if (typeof answer !== "string") this.#fail(cancelled(this.#plan, answer));
    else this.#goOn(answer, false);
  }

  /**
   * @param {string | number} reply
   * @param {boolean} isFresh whether the engine has returned it just now
   */
  #goOn(reply, isFresh) {
    try {
      while (typeof reply === "string") {
        const held = this.#read(reply, isFresh);
        if (held !== undefined) {
          this.#account?.close(held, reply);
          // An observer may have blocked the thread until the lock expired.
          if (this.#account === undefined || held?.lost() === undefined) return this.#end(held);
        }
        reply = this.#again(reply);
        this.#id = 0;
        isFresh = false;
      }
      this.#id = reply;
    } catch (error) {
      this.#fail(error);
    }
  }

  /**
   * Reads the reply. Returns `undefined` if the lock came too late to be of use.
   * @param {string} reply
   * @param {boolean} isFresh
   * @returns {Held | null | undefined}
   */
  #read(reply, isFresh) {
    const engine = this.#engine;
    const plan = this.#plan;
    const tag = reply.charCodeAt(0);
    if (tag === LOCKED) return null;
    if (!isGrant(reply)) throw explained(replyError(reply, { key: plan.key }), engine, plan.key);
    const id = this.#id || returnedId();
    if (id !== 0) confirm(id);
    const grant = readGrant(reply, plan.key);
    const number = readNumber(grant.rest);
    if (!isFresh && engine.native.isLate(number)) return undefined;
    try {
      // A signal may have been aborted since the grant.
      checkNotCancelled(plan);
    } catch (error) {
      giveBack(engine, number);
      throw error;
    }
    return new Held(engine, plan, this.#observers, grant, number);
  }

  /**
   * Waits again: the event loop was blocked until the lock had expired.
   * @param {string} reply
   */
  #again(reply) {
    const number = readNumber(readGrant(reply, this.#plan.key).rest);
    unlisten(number);
    return this.#engine.native.holdAgain(number, isCancellable(this.#plan), this.#caller);
  }

  /** @param {Held | null} held */
  #end(held) {
    this.#engine.callers?.leave(this.#caller);
    this.held = held;
  }

  /**
   * @param {any} error
   * @returns {never}
   */
  #fail(error) {
    this.#engine.callers?.leave(this.#caller);
    this.#account?.close(undefined, "", error);
    throw error;
  }
}

/** @param {LockPlan} plan */
function isCancellable(plan) {
  return plan.signal !== undefined || plan.acquisitionSignal !== undefined;
}

/**
 * @param {Engine} engine
 * @param {number} number
 */
function giveBack({ native }, number) {
  const reply = native.abandonHold(number);
  if (typeof reply !== "string") settled(reply);
}

/** Reports a wait: one event for the whole of it, and a trace. */
class Account {
  #engine;
  #plan;
  #observers;
  #started = performance.now();
  #trace;

  /**
   * @param {Engine} engine
   * @param {LockPlan} plan
   * @param {readonly Observer[]} observers
   */
  constructor(engine, plan, observers) {
    const { key, name } = plan;
    this.#engine = engine;
    this.#plan = plan;
    this.#observers = observers;
    this.#trace = startTrace("acquire", key, undefined, { backend: engine.name, name });
  }

  /**
   * @param {Held | null | undefined} held
   * @param {string} reply
   * @param {LockError} [error]
   */
  close(held, reply, error) {
    const { key, name } = this.#plan;
    const durationMs = performance.now() - this.#started;
    const { attempts, waitMs } = held
      ? readProgress(reply)
      : { attempts: error ? attemptsOf(error) : 1, waitMs: 0 };
    const backend = this.#engine.name;
    const more = { backend, name, durationMs, attempts, waitMs: waitMs || durationMs };
    if (error !== undefined) this.#trace?.fail(error);
    this.#trace?.end(Boolean(held), held?.lockId, { attempts, waitMs: more.waitMs });
    const outcome = held ? { ok: true } : { ok: false, reason: "locked" };
    for (const observer of this.#observers) {
      observer.emit("acquire", key, held?.lockId, error, error ? more : { ...more, outcome });
    }
  }
}

/**
 * Returns the number of attempts. It is unknown if the caller cancelled the wait, or if an error of a
 * user's own backend ended it.
 * @param {LockError} error
 * @returns {number | undefined}
 */
function attemptsOf({ context }) {
  return typeof context?.attempts === "number" ? context.attempts : undefined;
}
