// Acquires a lock to hold. The whole wait is one call of the engine.

import { replyError } from "../base/errors.js";
import { isTraced, startTrace } from "../native/tracing.js";
import { confirm, returnedId, settled, settledOrAborted, unlisten } from "../native/bridge.js";
import {
  isGrant,
  LOCKED,
  readGrant,
  readGrants,
  readNumber,
  readProgress,
  SEVERAL,
} from "../native/replies.js";
import { cancelled, checkNotCancelled, subjectOf } from "./config.js";
import { Held } from "./held.js";
import { explained } from "./nesting.js";
import { accessTo, observerOf } from "./telemetry.js";
import { HeldSeveral } from "./several.js";

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
  /** The held lock. `null` if another holder has it and this acquisition does not wait. `undefined` as long
   * as the outcome is unknown.
   * @type {Held | HeldSeveral | null | undefined} */
  held;
  #engine;
  #plan;
  #observers;
  #caller;
  /** Reports the wait to observers and traces, if there are any. */
  #report;
  /** The id of the engine's answer; 0 if the answer was returned at once. */
  #id = 0;

  /**
   * @param {any} backend any LockBackend
   * @param {LockPlan} plan
   * @param {boolean} wait
   */
  constructor(backend, plan, wait) {
    const { engine, observers } = accessTo(backend, plan.autoExtend === true);
    // Heartbeats of a custom backend depend on the event loop, so they are off by default.
    const autoExtend = (plan.autoExtend ??= engine.isNative);
    const { key, keys, ttlMs, limits, onEvent } = plan;
    this.#engine = engine;
    this.#plan = plan;
    this.#observers = onEvent === undefined ? observers : [...observers, observerOf({ onEvent })];
    if (this.#observers.length > 0 || isTraced("acquire")) {
      this.#report = new WaitReport(engine, plan, this.#observers);
    }
    this.#caller = engine.callers?.enter(plan.signal) ?? 0;
    const cancellable = isCancellable(plan);
    const { native } = engine;
    this.#advance(
      keys === undefined
        ? native.hold(key, ttlMs, wait, autoExtend, cancellable, this.#caller, limits)
        : native.holdSeveral(
            ...[JSON.stringify(keys), ttlMs, wait, autoExtend, cancellable, this.#caller, limits],
          ),
      true,
    );
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
    else this.#advance(answer, false);
  }

  /**
   * Continues with a reply: ends the acquisition, waits again, or keeps the id of the reply to wait for.
   * @param {string | number} reply
   * @param {boolean} isFresh whether the engine has returned it just now
   */
  #advance(reply, isFresh) {
    try {
      while (typeof reply === "string") {
        const held = this.#read(reply, isFresh);
        if (held !== undefined) {
          this.#report?.end(held, reply);
          // An observer may have blocked the thread until the lock expired.
          if (this.#report === undefined || held?.lost() === undefined) return this.#end(held);
        }
        reply = this.#waitAgain(reply);
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
   * @returns {Held | HeldSeveral | null | undefined}
   */
  #read(reply, isFresh) {
    const engine = this.#engine;
    const plan = this.#plan;
    const tag = reply.charCodeAt(0);
    if (tag === LOCKED) return null;
    if (tag !== SEVERAL && !isGrant(reply)) {
      throw explained(replyError(reply, subjectOf(plan)), engine, plan.keys ?? [plan.key]);
    }
    const id = this.#id || returnedId();
    if (id !== 0) confirm(id);
    if (tag === SEVERAL) return this.#readSeveral(reply, isFresh);
    const grant = readGrant(reply, plan.key);
    const number = readNumber(grant.rest);
    if (!isFresh && engine.native.isLate(number)) return undefined;
    this.#checkNotCancelled(number);
    return new Held(engine, plan, this.#observers, grant, number);
  }

  /**
   * @param {string} reply
   * @param {boolean} isFresh
   */
  #readSeveral(reply, isFresh) {
    const engine = this.#engine;
    const grants = readGrants(reply);
    const numbers = grants.map(({ number }) => number);
    if (!isFresh && numbers.some((number) => engine.native.isLate(number))) return undefined;
    this.#checkNotCancelled(...numbers);
    const locks = grants.map((grant) => {
      const plan = { ...this.#plan, key: grant.key, keys: undefined };
      return new Held(engine, plan, this.#observers, grant, grant.number);
    });
    return new HeldSeveral(/** @type {[Held, ...Held[]]} */ (locks));
  }

  /**
   * Throws if a signal was aborted since the grant, and releases the locks.
   * @param {...number} numbers
   */
  #checkNotCancelled(...numbers) {
    try {
      checkNotCancelled(this.#plan);
    } catch (error) {
      for (const number of numbers) abandon(this.#engine, number);
      throw error;
    }
  }

  /**
   * Continues the wait after a grant that came too late, because the event loop was blocked.
   * @param {string} reply
   */
  #waitAgain(reply) {
    const { native } = this.#engine;
    const cancellable = isCancellable(this.#plan);
    if (reply.charCodeAt(0) === SEVERAL) {
      const numbers = readGrants(reply).map(({ number }) => number);
      numbers.forEach(unlisten);
      return native.holdSeveralAgain(numbers, cancellable, this.#caller);
    }
    const number = readNumber(readGrant(reply, this.#plan.key).rest);
    unlisten(number);
    return native.holdAgain(number, cancellable, this.#caller);
  }

  /** @param {Held | HeldSeveral | null} held */
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
    this.#report?.end(undefined, "", error);
    throw error;
  }
}

/** @param {LockPlan} plan */
function isCancellable(plan) {
  return plan.signal !== undefined || plan.acquisitionSignal !== undefined;
}

/**
 * Releases a lock that nobody has used.
 * @param {Engine} engine
 * @param {number} number
 */
function abandon({ native }, number) {
  const reply = native.abandonHold(number);
  if (typeof reply !== "string") settled(reply);
}

/** Reports a wait to observers, with one event for the whole of it, and as a trace. */
class WaitReport {
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
    const { key, keys, mode, name } = plan;
    this.#engine = engine;
    this.#plan = plan;
    this.#observers = observers;
    // A trace of several keys has no key.
    const traced = keys === undefined ? key : undefined;
    this.#trace = startTrace("acquire", traced, undefined, { backend: engine.name, name, mode });
  }

  /**
   * @param {Held | HeldSeveral | null | undefined} held
   * @param {string} reply
   * @param {LockError} [error]
   */
  end(held, reply, error) {
    const { key, keys = [key], mode, name } = this.#plan;
    const durationMs = performance.now() - this.#started;
    const { attempts, waitMs } = held
      ? readProgress(reply)
      : { attempts: error ? attemptsOf(error) : 1, waitMs: 0 };
    const backend = this.#engine.name;
    const more = { backend, name, mode, durationMs, attempts, waitMs: waitMs || durationMs };
    if (error !== undefined) this.#trace?.fail(error);
    const locks = held instanceof HeldSeveral ? held.locks : held ? [held] : [];
    // A trace of several keys has no slot, as each key has its own.
    const slot = locks.length === 1 ? locks[0].slot : undefined;
    this.#trace?.end(Boolean(held), held?.lockId, { attempts, waitMs: more.waitMs, slot });
    const outcome = held ? { ok: true } : { ok: false, reason: "locked" };
    const facts = error ? more : { ...more, outcome };
    for (const observer of this.#observers) {
      if (locks.length === 0)
        for (const one of keys) observer.emit("acquire", one, undefined, error, facts);
      for (const lock of locks) {
        observer.emit("acquire", lock.key, lock.lockId, error, { ...facts, slot: lock.slot });
      }
    }
  }
}

/**
 * Returns the number of attempts. It is unknown if the caller cancelled the wait, or if an error of a
 * custom backend ended it.
 * @param {LockError} error
 * @returns {number | undefined}
 */
function attemptsOf({ context }) {
  return typeof context?.attempts === "number" ? context.attempts : undefined;
}
