// lead(): leader election.

import { invalidArgument } from "../base/errors.js";
import { stayAlive } from "../native/bridge.js";
import { readLockConfig } from "./config.js";
import { LockContext } from "./held.js";
import { endQuietly } from "./lock.js";
import { callInside } from "./nesting.js";
import { Taking } from "./take.js";

/** @import { LockConfig } from "../../index.js" */
/** @typedef {import("./config.js").LockPlan} LockPlan */
/** @typedef {import("./held.js").Held} Held */

/**
 * Waits until this one leads, runs fn, and stands again when the lead was lost.
 * @param {any} backend any LockBackend
 * @param {(context: any) => any} fn
 * @param {LockConfig} config
 * @returns {Promise<any>} what fn returned when it resigned
 */
export async function leadWith(backend, fn, config) {
  if (typeof fn !== "function") throw invalidArgument("lead() needs the function of the leader");
  const plan = readLockConfig(config, "lead(fn, { key })", true);
  // Also where the leader does nothing but wait to be deposed.
  const leave = stayAlive();
  try {
    for (;;) {
      const taking = new Taking(backend, plan, true);
      while (taking.held === undefined) taking.hear(await taking.answer());
      const term = taking.held && (await serve(backend, taking.held, fn, plan));
      if (term) return term.value;
    }
  } finally {
    leave();
  }
}

/**
 * One term. Nothing: it is to stand for election again.
 * @param {any} backend
 * @param {Held} held
 * @param {(context: any) => any} fn
 * @param {LockPlan} plan
 * @returns {Promise<{ value: any } | null>}
 */
async function serve(backend, held, fn, plan) {
  let outcome;
  try {
    outcome = { ok: true, value: await callInside(held, fn, new LockContext(held)) };
  } catch (thrown) {
    outcome = { ok: false, thrown };
  }
  const lost = held.lost();
  await endQuietly(backend, held, plan);
  const deposed = lost !== undefined && !plan.signal?.aborted;
  // An error of its own ends it also then; that it was stopped is none.
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
