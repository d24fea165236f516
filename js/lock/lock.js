// lock() and tryLock(): run fn while the lock is held.

import { checkBackend, invalidArgument } from "../base/errors.js";
import { readLockConfig } from "./config.js";
import { hooksOf, notify, reportReleaseError } from "../base/handle.js";
import { callInside } from "./nesting.js";
import { Acquisition } from "./acquisition.js";
import { contextOf } from "./context.js";

/** @import { AutoLock, BackendCapabilities, CustomLockBackend, LockConfig, SeveralLocksConfig } from "../../index.js" */
/** @typedef {import("./config.js").LockPlan} LockPlan */
/** @typedef {import("./held.js").Held | import("./several.js").HeldSeveral} Held */

/**
 * @param {any} backend any LockBackend
 * @param {(context: any) => any} fn
 * @param {LockConfig | SeveralLocksConfig} config
 * @returns {Promise<any>}
 */
export function lockWith(backend, fn, config) {
  return run("lock", backend, fn, config);
}

/**
 * @param {any} backend any LockBackend
 * @param {(context: any) => any} fn
 * @param {LockConfig | SeveralLocksConfig} config
 */
export function tryLockWith(backend, fn, config) {
  return run("tryLock", backend, fn, config);
}

/**
 * Runs fn while the lock is held, then releases it. An error of fn takes precedence over any other.
 *
 * This is one function, because every further async function would cost each lock another promise.
 * @param {"lock" | "tryLock"} form
 * @param {any} backend
 * @param {(context: any) => any} fn
 * @param {LockConfig | SeveralLocksConfig} config
 */
async function run(form, backend, fn, config) {
  if (typeof fn !== "function") {
    throw invalidArgument(
      `${form}() got no function to run. Pass the one to run while the lock is held`,
    );
  }
  const plan = readLockConfig(config, `${form}(fn, { key })`);
  const waits = form === "lock";
  const acquisition = new Acquisition(backend, plan, waits);
  while (acquisition.held === undefined) acquisition.onReply(await acquisition.answer());
  const { held } = acquisition;
  if (held === null) return { ok: false, reason: "locked" };
  const startedAt = performance.now();
  let value;
  try {
    value = await callInside(held, fn, contextOf(held, plan));
  } catch (error) {
    await endQuietly(backend, held, plan);
    throw error;
  }
  const ranForMs = performance.now() - startedAt;
  const ending = endQuietly(backend, held, plan);
  if (ending !== undefined) await ending;
  const lost = held.lost();
  if (lost !== undefined) {
    if (plan.throwIfLost) throw lost;
    warnOfLoss(ranForMs, plan);
  }
  return waits ? value : { ok: true, value };
}

let hasWarnedOfLoss = false;

/**
 * Warns that a lock was lost while its function ran. Warns in production too, because a lock has to prevent
 * two holders at a time. Warns once per process, so that an unreachable store does not flood the log.
 * @param {number} ranForMs
 * @param {LockPlan} plan
 */
function warnOfLoss(ranForMs, { ttlMs, autoExtend }) {
  if (hasWarnedOfLoss) return;
  hasWarnedOfLoss = true;
  const advice = autoExtend
    ? "Stop the work when context.signal aborts"
    : "Leave out ttlMs or set autoExtend, so that the lock is kept alive, or use a longer ttlMs";
  const message =
    `A lock was lost while its function ran: it ran for ${Math.round(ranForMs)} ms with ttlMs ` +
    `${ttlMs}. Others may have held the lock in the meantime. ${advice}; check fences where you ` +
    "write; set throwIfLost to get an error. This warning is shown once";
  notify(() =>
    process.emitWarning(message, { type: "SyncGuardWarning", code: "SYNCGUARD_LOCK_LOST" }),
  );
}

/**
 * Releases the lock. Ignores the caller's signal, and never replaces what fn returned or threw.
 * @param {any} backend
 * @param {Held} held
 * @param {LockPlan} plan
 * @returns {Promise<unknown> | undefined} undefined if the caller need not wait: the lock is released, or
 *   it is lost. The release of a lost lock continues in the background, so that an unreachable store does
 *   not delay the caller
 */
export function endQuietly(backend, held, plan) {
  const report = (/** @type {unknown} */ error) => {
    const onReleaseError = plan.onReleaseError ?? hooksOf(backend)?.onReleaseError;
    reportReleaseError(error, held.lockId, held.key, onReleaseError);
  };
  try {
    const ending = held.end();
    if (!(ending instanceof Promise)) return;
    const reported = ending.catch(report);
    if (held.lost() === undefined) return reported;
  } catch (error) {
    report(error);
  }
}

/**
 * Returns lock(), bound to one backend.
 * @template {BackendCapabilities} C
 * @param {CustomLockBackend<C>} backend
 * @returns {AutoLock<C>}
 */
export function createAutoLock(backend) {
  checkBackend(backend, ["acquire", "release"]);
  return (/** @type {any} */ fn, config) => lockWith(backend, fn, config);
}
