// lock() and tryLock(): run fn while the lock is held.

import { checkBackend, invalidArgument } from "../base/errors.js";
import { readLockConfig } from "./config.js";
import { hooksOf, isDebugging, notify, reportReleaseError } from "./handle.js";
import { LockContext } from "./held.js";
import { callInside } from "./nesting.js";
import { Taking } from "./take.js";

/** @import { AutoLock, BackendCapabilities, CustomLockBackend, LockConfig } from "../../index.js" */
/** @typedef {import("./config.js").LockPlan} LockPlan */
/** @typedef {import("./held.js").Held} Held */

/**
 * @param {any} backend any LockBackend
 * @param {(context: any) => any} fn
 * @param {LockConfig} config
 * @returns {Promise<any>}
 */
export function lockWith(backend, fn, config) {
  return run("lock", backend, fn, config);
}

/**
 * @param {any} backend any LockBackend
 * @param {(context: any) => any} fn
 * @param {LockConfig} config
 */
export function tryLockWith(backend, fn, config) {
  return run("tryLock", backend, fn, config);
}

/**
 * Runs fn while the lock is held, and gives it back. What fn throws wins over everything else.
 *
 * One function for all of it: every lock would pay for the promise of each further one.
 * @param {"lock" | "tryLock"} form
 * @param {any} backend
 * @param {(context: any) => any} fn
 * @param {LockConfig} config
 */
async function run(form, backend, fn, config) {
  if (typeof fn !== "function") {
    throw invalidArgument(`${form}() needs the function to run while the lock is held`);
  }
  const plan = readLockConfig(config, `${form}(fn, { key })`);
  const waits = form === "lock";
  const taking = new Taking(backend, plan, waits);
  while (taking.held === undefined) taking.hear(await taking.answer());
  const { held } = taking;
  if (held === null) return { ok: false, reason: "locked" };
  const startedAt = performance.now();
  let value;
  try {
    value = await callInside(held, fn, new LockContext(held));
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

/**
 * @param {number} ranForMs
 * @param {LockPlan} plan
 */
function warnOfLoss(ranForMs, { ttlMs, autoExtend }) {
  if (!isDebugging()) return;
  const advice = autoExtend ? "heed context.signal" : "use a longer ttlMs, or autoExtend";
  notify(() =>
    console.warn(
      `[SyncGuard] A lock was lost while its function ran: it ran for ${Math.round(ranForMs)} ms ` +
        `with ttlMs ${ttlMs}. Others may have held the lock meanwhile: ${advice}, check fences, ` +
        "or set throwIfLost",
    ),
  );
}

/**
 * Never with the caller's signal, and never in the way of what fn returned or threw.
 * @param {any} backend
 * @param {Held} held
 * @param {LockPlan} plan
 * @returns {Promise<unknown> | undefined} nothing when it is done
 */
export function endQuietly(backend, held, plan) {
  const report = (/** @type {unknown} */ error) => {
    const onReleaseError = plan.onReleaseError ?? hooksOf(backend)?.onReleaseError;
    reportReleaseError(error, held.lockId, plan.key, onReleaseError);
  };
  try {
    const ending = held.end();
    if (ending instanceof Promise) return ending.catch(report);
  } catch (error) {
    report(error);
  }
}

/**
 * lock() bound to one backend.
 * @template {BackendCapabilities} C
 * @param {CustomLockBackend<C>} backend
 * @returns {AutoLock<C>}
 */
export function createAutoLock(backend) {
  checkBackend(backend, ["acquire", "release"]);
  return (/** @type {any} */ fn, config) => lockWith(backend, fn, config);
}
