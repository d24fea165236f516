// Getting a lock to hold: the whole wait is one call of the engine.

import { LockError, replyError } from "../base/errors.js";
import { settled, settledOrAborted } from "../native/bridge.js";
import { ACQUIRED, LOCKED, readGrant } from "../native/replies.js";
import { cancelled, checkNotCancelled } from "./config.js";
import { Held } from "./held.js";
import { accessTo, observerOf } from "./telemetry.js";

/** @typedef {import("../native/engine.js").Engine} Engine */
/** @typedef {import("./config.js").LockPlan} LockPlan */
/** @typedef {import("./telemetry.js").Observer} Observer */

/**
 * The lock, held; or, when it was not waited for and another has it, nothing.
 * @param {any} backend any LockBackend
 * @param {LockPlan} plan
 * @param {boolean} wait
 * @returns {Held | null | Promise<Held | null>}
 */
export function take(backend, plan, wait) {
  // Not an async function: where nothing has to be waited for, that would cost turns of the
  // microtask queue.
  const access = accessTo(backend, plan.autoExtend);
  const { engine } = access;
  const observers =
    plan.onEvent === undefined
      ? access.observers
      : [...access.observers, observerOf({ onEvent: plan.onEvent })];
  if (observers.length > 0) return takeObserved(engine, plan, wait, observers);
  const caller = engine.callers?.enter(plan.signal) ?? 0;
  const reply = start(engine, plan, wait, caller);
  if (typeof reply === "string") {
    const held = read(engine, plan, reply, observers);
    if (held !== undefined) return held;
  }
  return finish(engine, plan, reply, caller, observers);
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
 * @returns {Held | null | undefined}
 */
function read(engine, plan, reply, observers) {
  const tag = reply.charCodeAt(0);
  if (tag === LOCKED) return null;
  if (tag !== ACQUIRED) throw replyError(reply, { key: plan.key });
  const grant = readGrant(reply, plan.key);
  const number = parseInt(grant.rest);
  if (engine.native.heldFor(number) <= 0) return undefined;
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
 * @param {Engine} engine
 * @param {number} number
 */
function giveBack({ native }, number) {
  const reply = native.endHold(number);
  if (typeof reply !== "string") settled(reply);
}

/**
 * @param {Engine} engine
 * @param {LockPlan} plan
 * @param {string | number} reply
 * @param {number} caller
 * @param {readonly Observer[]} observers
 * @param {(reply: string) => void} [onReply]
 * @returns {Promise<Held | null>}
 */
async function finish(engine, plan, reply, caller, observers, onReply) {
  try {
    for (;;) {
      if (typeof reply !== "string") reply = await waited(engine, plan, reply);
      onReply?.(reply);
      const held = read(engine, plan, reply, observers);
      if (held !== undefined) return held;
      // The event loop was busy for so long that the lock's time has passed.
      const number = parseInt(readGrant(reply, plan.key).rest);
      reply = engine.native.holdAgain(number, isCancellable(plan), caller);
    }
  } finally {
    engine.callers?.leave(caller);
  }
}

/**
 * @param {Engine} engine
 * @param {LockPlan} plan
 * @param {number} id
 * @returns {Promise<string>}
 */
async function waited({ native }, plan, id) {
  const { signal, acquisitionSignal } = plan;
  const first = signal ?? acquisitionSignal;
  if (first === undefined) return settled(id);
  const second = first === signal ? acquisitionSignal : undefined;
  const answered = await settledOrAborted(native, id, first, second);
  if (typeof answered === "string") return answered;
  throw cancelled(plan, answered);
}

/**
 * The same, and tells how it went: one event for the whole wait.
 * @param {Engine} engine
 * @param {LockPlan} plan
 * @param {boolean} wait
 * @param {readonly Observer[]} observers
 * @returns {Promise<Held | null>}
 */
async function takeObserved(engine, plan, wait, observers) {
  const { key, name } = plan;
  const started = performance.now();
  let attempts = 1;
  let waitMs = 0;
  const emit = (
    /** @type {Held | null | undefined} */ held,
    /** @type {LockError | undefined} */ error = undefined,
  ) => {
    const durationMs = performance.now() - started;
    const more = { backend: engine.name, name, durationMs, attempts, waitMs: waitMs || durationMs };
    const outcome = held ? { ok: true } : { ok: false, reason: "locked" };
    for (const observer of observers) {
      observer.emit("acquire", key, held?.lockId, error, error ? more : { ...more, outcome });
    }
  };
  try {
    const caller = engine.callers?.enter(plan.signal) ?? 0;
    const reply = start(engine, plan, wait, caller);
    const held = await finish(engine, plan, reply, caller, observers, (text) => {
      if (text.charCodeAt(0) !== ACQUIRED) return;
      [, attempts, waitMs] = readGrant(text, key).rest.split(",").map(Number);
    });
    emit(held);
    return held;
  } catch (error) {
    emit(undefined, /** @type {LockError} */ (error));
    throw error;
  }
}
