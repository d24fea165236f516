// Getting a lock to hold: the whole wait is one call of the engine.

import { LockError, replyError } from "../base/errors.js";
import { isTraced, startTrace } from "../base/tracing.js";
import { settled, settledOrAborted, unlisten } from "../native/bridge.js";
import { ACQUIRED, LOCKED, readGrant, readProgress } from "../native/replies.js";
import { cancelled, checkNotCancelled } from "./config.js";
import { Held } from "./held.js";
import { explained } from "./nesting.js";
import { accessTo, observerOf } from "./telemetry.js";

/** @typedef {import("../native/engine.js").Engine} Engine */
/** @typedef {import("./config.js").LockPlan} LockPlan */
/** @typedef {import("./telemetry.js").Observer} Observer */

/**
 * Calls `use` with the lock in the moment in which it is known to be held, and returns what that
 * returns; or nothing, when the lock was not waited for and another has it.
 * @template T
 * @param {any} backend any LockBackend
 * @param {LockPlan} plan
 * @param {boolean} wait
 * @param {(held: Held) => T | Promise<T>} use
 * @returns {T | null | Promise<T | null>}
 */
export function take(backend, plan, wait, use) {
  // Not an async function: where nothing has to be waited for, that would cost turns of the
  // microtask queue.
  const access = accessTo(backend, plan.autoExtend);
  const { engine } = access;
  const observers =
    plan.onEvent === undefined
      ? access.observers
      : [...access.observers, observerOf({ onEvent: plan.onEvent })];
  if (observers.length > 0 || isTraced("acquire")) {
    return takeObserved(engine, plan, wait, observers, use);
  }
  const caller = engine.callers?.enter(plan.signal) ?? 0;
  const reply = start(engine, plan, wait, caller);
  if (typeof reply === "string") {
    const held = read(engine, plan, reply, observers, true);
    return held ? use(held) : null;
  }
  return finish(engine, plan, reply, caller, observers, use);
}

/**
 * @param {Engine} engine
 * @param {LockPlan} plan
 * @param {boolean} wait
 * @param {number} caller
 */
function start({ native }, plan, wait, caller) {
  const { key, ttlMs, autoExtend, limits } = plan;
  return native.hold(key, ttlMs, wait, autoExtend, isCancellable(plan), caller, limits);
}

/** @param {LockPlan} plan */
function isCancellable(plan) {
  return plan.signal !== undefined || plan.acquisitionSignal !== undefined;
}

/**
 * Undefined when the lock came too late to be of use.
 * @param {Engine} engine
 * @param {LockPlan} plan
 * @param {string} reply
 * @param {readonly Observer[]} observers
 * @param {boolean} [isFresh] whether the engine gave it in this very moment
 * @returns {Held | null | undefined}
 */
function read(engine, plan, reply, observers, isFresh = false) {
  const tag = reply.charCodeAt(0);
  if (tag === LOCKED) return null;
  if (tag !== ACQUIRED) throw explained(replyError(reply, { key: plan.key }), engine, plan.key);
  const grant = readGrant(reply, plan.key);
  const number = parseInt(grant.rest);
  if (!isFresh && engine.native.heldFor(number) <= leastMs(plan)) return undefined;
  try {
    // A signal may have been aborted between the grant and now.
    checkNotCancelled(plan);
  } catch (error) {
    giveBack(engine, number);
    throw error;
  }
  return new Held(engine, plan, observers, grant, number);
}

/**
 * A lock that came late and ends in a moment is of no use: fn would begin without it.
 * @param {LockPlan} plan
 */
function leastMs({ ttlMs }) {
  return Math.min(10, ttlMs / 20);
}

/**
 * @param {Engine} engine
 * @param {number} number
 */
function giveBack({ native }, number) {
  const reply = native.abandonHold(number);
  if (typeof reply !== "string") settled(reply);
}

/**
 * @template T
 * @param {Engine} engine
 * @param {LockPlan} plan
 * @param {string | number} reply
 * @param {number} caller
 * @param {readonly Observer[]} observers
 * @param {(held: Held) => T | Promise<T>} use
 * @param {(held: Held | null, reply: string) => void} [onTaken]
 * @returns {Promise<T | null>}
 */
async function finish(engine, plan, reply, caller, observers, use, onTaken) {
  let held;
  try {
    for (;;) {
      if (typeof reply !== "string") reply = await waited(engine, plan, reply);
      held = read(engine, plan, reply, observers);
      if (held !== undefined) {
        onTaken?.(held, reply);
        // Who was told may have kept the thread.
        if (onTaken === undefined || held === null || held.lost() === undefined) break;
      }
      // The event loop was busy for so long that the lock's time has passed.
      const number = parseInt(readGrant(reply, plan.key).rest);
      unlisten(number);
      reply = engine.native.holdAgain(number, isCancellable(plan), caller);
    }
  } finally {
    engine.callers?.leave(caller);
  }
  return held && (await use(held));
}

/**
 * @param {Engine} engine
 * @param {LockPlan} plan
 * @param {number} id
 * @returns {Promise<string>}
 */
function waited({ native }, plan, id) {
  const { signal, acquisitionSignal } = plan;
  const first = signal ?? acquisitionSignal;
  if (first === undefined) return settled(id);
  const second = first === signal ? acquisitionSignal : undefined;
  return settledOrAborted(native, id, first, second).then((answered) => {
    if (typeof answered === "string") return answered;
    throw cancelled(plan, answered);
  });
}

/**
 * Not known of a wait that its caller cancelled, or that a backend of the user's ended.
 * @param {LockError} error
 * @returns {number | undefined}
 */
function attemptsOf({ context }) {
  return typeof context?.attempts === "number" ? context.attempts : undefined;
}

/**
 * The same, and tells how it went: one event for the whole wait.
 * @template T
 * @param {Engine} engine
 * @param {LockPlan} plan
 * @param {boolean} wait
 * @param {readonly Observer[]} observers
 * @param {(held: Held) => T | Promise<T>} use
 * @returns {Promise<T | null>}
 */
async function takeObserved(engine, plan, wait, observers, use) {
  const { key, name } = plan;
  const started = performance.now();
  const trace = startTrace("acquire", key, undefined, { backend: engine.name, name });
  let isUsed = false;
  const useIt = (/** @type {Held} */ held) => {
    isUsed = true;
    return use(held);
  };
  const emit = (
    /** @type {Held | null | undefined} */ held,
    /** @type {string} */ reply,
    /** @type {LockError | undefined} */ error = undefined,
  ) => {
    const durationMs = performance.now() - started;
    const { attempts, waitMs } = held
      ? readProgress(reply)
      : { attempts: error ? attemptsOf(error) : 1, waitMs: 0 };
    const more = { backend: engine.name, name, durationMs, attempts, waitMs: waitMs || durationMs };
    if (error !== undefined) trace?.fail(error);
    trace?.end(Boolean(held), held?.lockId, { attempts, waitMs: more.waitMs });
    const outcome = held ? { ok: true } : { ok: false, reason: "locked" };
    for (const observer of observers) {
      observer.emit("acquire", key, held?.lockId, error, error ? more : { ...more, outcome });
    }
  };
  try {
    const caller = engine.callers?.enter(plan.signal) ?? 0;
    const reply = start(engine, plan, wait, caller);
    return await finish(engine, plan, reply, caller, observers, useIt, emit);
  } catch (error) {
    if (!isUsed) emit(undefined, "", /** @type {LockError} */ (error));
    throw error;
  }
}
