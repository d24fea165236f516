// Detects a wait for a lock inside the function that holds that lock. Such a wait can only time out.
//
// When a wait has timed out, the engine knows at no cost whether this process has held the lock all the
// time. Only an AsyncLocalStorage can tell whether the caller itself holds it. Calling every function in a
// context costs a tenth of lock() on the memory backend, and on Node 20 and 22 it makes every promise of
// the program three times slower. So this is only done in development and in tests.

import { AsyncLocalStorage } from "node:async_hooks";
import { LockError } from "../base/errors.js";

/** @typedef {import("../native/engine.js").Engine} Engine */
/** @typedef {import("./held.js").Held | import("./several.js").HeldSeveral} Held */
/** @typedef {{ held: Held, around: Inside | undefined }} Inside */

const ENVIRONMENTS = ["development", "test"];

/** Whether calls are tracked. `undefined` before the first call.
 * @type {boolean | undefined} */
let isTracking;

/** @type {AsyncLocalStorage<Inside> | undefined} */
let storage;

/** Decides whether to track calls. */
function startTracking() {
  const { NODE_ENV = "", SYNCGUARD_DEBUG } = process.env;
  isTracking = ENVIRONMENTS.includes(NODE_ENV) || SYNCGUARD_DEBUG === "true";
  if (isTracking) storage = new AsyncLocalStorage();
  return isTracking;
}

/**
 * Calls the function of a lock, in a context that knows the lock.
 * @template T
 * @param {Held} held
 * @param {(context: any) => T} fn
 * @param {any} context
 * @returns {T}
 */
export function callInside(held, fn, context) {
  if (!(isTracking ?? startTracking()) || storage === undefined) return fn(context);
  const around = withoutEnded(storage.getStore());
  if (around !== undefined) around.around = withoutEnded(around.around);
  return storage.run({ held, around }, fn, context);
}

/**
 * Skips locks that have ended. Work can outlive the lock under which it started and acquire further locks,
 * so the list would otherwise grow forever.
 * @param {Inside | undefined} inside
 */
function withoutEnded(inside) {
  while (inside?.held.isEnded) inside = inside.around;
  return inside;
}

/**
 * Returns the error, with an explanation if the caller waited for a lock that it holds itself.
 * @param {LockError} error of a wait that failed, in the context of its caller
 * @param {Engine} engine
 * @param {readonly string[]} keys
 * @returns {LockError}
 */
export function explained(error, engine, keys) {
  if (error.code !== "AcquisitionTimeout" || error.cause !== undefined) return error;
  for (let inside = storage?.getStore(); inside !== undefined; inside = inside.around) {
    const { held } = inside;
    if (keys.some((key) => held.isOf(engine, key))) return waitedForItself(error);
  }
  return error;
}

/** @param {LockError} error */
function waitedForItself({ code, message, context }) {
  const failed = message.slice(0, message.indexOf(":"));
  return new LockError(
    code,
    `${failed}: it waited for itself. The call was made inside the function of a lock() or lead() ` +
      "that holds this very lock, and a lock is not reentrant. Remove the inner lock, or give it " +
      "another key",
    context,
  );
}
