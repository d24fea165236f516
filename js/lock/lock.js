// lock() and tryLock(): run fn while the lock is held.

import { checkBackend, invalidArgument } from "../base/errors.js";
import { readLockConfig } from "./config.js";
import { hooksOf, isDebugging, notify, reportReleaseError } from "./handle.js";
import { LockContext } from "./held.js";
import { callInside } from "./nesting.js";
import { take } from "./take.js";

/** @import { AutoLock, BackendCapabilities, CustomLockBackend, LockConfig } from "../../index.js" */
/** @typedef {import("./config.js").LockPlan} LockPlan */
/** @typedef {import("./held.js").Held} Held */

/**
 * @param {any} backend any LockBackend
 * @param {(context: any) => any} fn
 * @param {LockConfig} config
 * @returns {Promise<any>}
 */
export async function lockWith(backend, fn, config) {
  const plan = readPlan("lock", fn, config);
  return take(backend, plan, true, (held) => runHeld(backend, held, fn, plan));
}

/**
 * @param {any} backend any LockBackend
 * @param {(context: any) => any} fn
 * @param {LockConfig} config
 */
export async function tryLockWith(backend, fn, config) {
  const plan = readPlan("tryLock", fn, config);
  const done = await take(backend, plan, false, async (held) => ({
    ok: true,
    value: await runHeld(backend, held, fn, plan),
  }));
  return done ?? { ok: false, reason: "locked" };
}

/**
 * @param {string} name
 * @param {unknown} fn
 * @param {LockConfig} config
 */
function readPlan(name, fn, config) {
  if (typeof fn !== "function") {
    throw invalidArgument(`${name}() needs the function to run while the lock is held`);
  }
  return readLockConfig(config, `${name}(fn, { key })`);
}

/**
 * Runs fn and gives the lock back. What fn throws wins over everything else.
 * @param {any} backend
 * @param {Held} held
 * @param {(context: any) => any} fn
 * @param {LockPlan} plan
 */
async function runHeld(backend, held, fn, plan) {
  const startedAt = performance.now();
  let value;
  try {
    value = await callInside(held, fn, new LockContext(held));
  } catch (error) {
    await endQuietly(backend, held, plan);
    throw error;
  }
  const ranForMs = performance.now() - startedAt;
  await endQuietly(backend, held, plan);
  const lost = held.lost();
  if (lost === undefined) return value;
  if (plan.throwIfLost) throw lost;
  warnOfLoss(ranForMs, plan);
  return value;
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
 */
export async function endQuietly(backend, held, plan) {
  try {
    await held.end();
  } catch (error) {
    const onReleaseError = plan.onReleaseError ?? hooksOf(backend)?.onReleaseError;
    reportReleaseError(error, held.lockId, plan.key, onReleaseError);
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
