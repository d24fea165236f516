// lead(): leader election.

import { invalidArgument } from "../base/errors.js";
import { stayAlive } from "../native/bridge.js";
import { readLockConfig } from "./config.js";
import { endQuietly } from "./lock.js";
import { callInside } from "./nesting.js";
import { Acquisition } from "./acquisition.js";
import { contextOf } from "./context.js";

/** @import { LockConfig } from "../../index.js" */
/** @typedef {import("./config.js").LockPlan} LockPlan */
/** @typedef {import("./held.js").Held | import("./several.js").HeldSeveral} Held */

/**
 * Waits until this process leads, then runs fn. Rejoins the election if the lock is lost.
 * @param {any} backend any LockBackend
 * @param {(context: any) => any} fn
 * @param {LockConfig} config
 * @returns {Promise<any>} what fn returned when it resigned
 */
export async function leadWith(backend, fn, config) {
  if (typeof fn !== "function") {
    throw invalidArgument("lead() got no function to run. Pass the one that the leader runs");
  }
  const plan = readLockConfig(config, "lead(fn, { key })", true);
  // The process stays alive even if the leader does nothing but wait for the loss of the lock.
  const leave = stayAlive();
  try {
    for (;;) {
      const acquisition = new Acquisition(backend, plan, true);
      while (acquisition.held === undefined) acquisition.onReply(await acquisition.answer());
      const term = acquisition.held && (await runTerm(backend, acquisition.held, fn, plan));
      if (term) return term.value;
    }
  } finally {
    leave();
  }
}

/**
 * Runs fn for one term. Returns `null` if the lock was lost, so that the caller rejoins the election.
 * @param {any} backend
 * @param {Held} held
 * @param {(context: any) => any} fn
 * @param {LockPlan} plan
 * @returns {Promise<{ value: any } | null>}
 */
async function runTerm(backend, held, fn, plan) {
  let outcome;
  try {
    outcome = { ok: true, value: await callInside(held, fn, contextOf(held, plan)) };
  } catch (thrown) {
    outcome = { ok: false, thrown };
  }
  const lost = held.lost();
  await endQuietly(backend, held, plan);
  const deposed = lost !== undefined && !plan.signal?.aborted;
  // An error of fn ends lead() even if the lock was lost, unless the loss caused the error.
  if (deposed && (outcome.ok || isBecauseOf(outcome.thrown, lost))) return null;
  if (outcome.ok) return { value: outcome.value };
  throw outcome.thrown;
}

/**
 * @param {any} thrown
 * @param {Error} lost
 */
function isBecauseOf(thrown, lost) {
  return thrown === lost || thrown?.cause === lost || thrown?.name === "AbortError";
}
