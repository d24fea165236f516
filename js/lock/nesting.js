// A lock that is waited for inside the function of that very lock: such a wait can only time out.
//
// The engine, when a wait has timed out, knows whether this process has held the lock all the time,
// and says so at no cost. Whether it was the caller itself, an AsyncLocalStorage tells; but to call
// every function in a context of its own costs a tenth of lock() on the memory backend, and on
// Node 20 and 22 every promise of the program becomes three times as dear. So that is done where
// programs are written: in development and in tests.

import { AsyncLocalStorage } from "node:async_hooks";
import { LockError } from "../base/errors.js";

/** @typedef {import("../native/engine.js").Engine} Engine */
/** @typedef {import("./held.js").Held} Held */
/** @typedef {{ held: Held, around: Inside | undefined }} Inside */

const ENVIRONMENTS = ["development", "test"];

/** @type {boolean | undefined} */
let isFollowing;

/** @type {AsyncLocalStorage<Inside> | undefined} */
let storage;

function follows() {
  const { NODE_ENV = "", SYNCGUARD_DEBUG } = process.env;
  isFollowing = ENVIRONMENTS.includes(NODE_ENV) || SYNCGUARD_DEBUG === "true";
  if (isFollowing) storage = new AsyncLocalStorage();
  return isFollowing;
}

/**
 * Calls the function of a lock.
 * @template T
 * @param {Held} held
 * @param {(context: any) => T} fn
 * @param {any} context
 * @returns {T}
 */
export function callInside(held, fn, context) {
  if (!(isFollowing ?? follows()) || storage === undefined) return fn(context);
  const around = withoutEnded(storage.getStore());
  if (around !== undefined) around.around = withoutEnded(around.around);
  return storage.run({ held, around }, fn, context);
}

/**
 * Without those that have ended: work may outlive the lock inside of which it was started, and go on
 * to lock for ever.
 * @param {Inside | undefined} inside
 */
function withoutEnded(inside) {
  while (inside?.held.isEnded) inside = inside.around;
  return inside;
}

/**
 * @param {LockError} error of a wait that failed, in the context of its caller
 * @param {Engine} engine
 * @param {string} key
 * @returns {LockError}
 */
export function explained(error, engine, key) {
  if (error.code !== "AcquisitionTimeout" || error.cause !== undefined) return error;
  for (let inside = storage?.getStore(); inside !== undefined; inside = inside.around) {
    if (inside.held.isOf(engine, key)) return waitedForItself(error);
  }
  return error;
}

/** @param {LockError} error */
function waitedForItself({ code, message, context }) {
  const failed = message.slice(0, message.indexOf(":"));
  return new LockError(
    code,
    `${failed}: it waited for itself. The call was made inside the function of a lock() or lead() ` +
      "that holds this very lock, and a lock is not reentrant: do without the inner lock, or give " +
      "it another key",
    context,
  );
}
