// syncguard/node-cron: a scheduled task of node-cron runs once per fleet.

import { LockError, invalidArgument } from "./base/errors.js";
import { unknownOption } from "./base/options.js";
import { backendOf } from "./targets/given.js";

/** @import { RunCoordinator, RunCoordinatorOptions } from "../types/node-cron.js" */

const DEFAULT_MIN_HOLD_MS = 30_000;

/** The longest time for which a run is locked. A task has the same keys again every hour: see `keyOf`. */
const LONGEST_HOLD_MS = 30 * 60_000;

/** The pattern of node-cron's name for a run: the task's name and the time for which it is scheduled. */
const RUN = /^(.*):(\d{4}-\d\d-\d\dT\d\d:(\d\d:\d\d)\.\d{3}Z)$/s;

/**
 * Returns a coordinator for `cron.setRunCoordinator()`. A run is elected by a lock that nobody releases:
 * it expires when no process can still ask for the same run.
 * @param {[target?: any, options?: RunCoordinatorOptions]} args
 * @returns {RunCoordinator}
 */
export function createRunCoordinator(...args) {
  const minHoldMs = readMinHold(args[1]);
  const { backend, close } = backendOf(args.slice(0, 1));
  return {
    async shouldRun(run, leaseMs) {
      const { key, scheduledAtMs } = keyOf(run);
      const ttlMs = Math.min(Math.max(leaseMs || 0, minHoldMs), LONGEST_HOLD_MS);
      // Checked before the attempt, so that a late process does not take the run, and again afterwards,
      // because the store may have answered late.
      checkNotLate(scheduledAtMs, ttlMs);
      const { ok } = await backend.acquire({ key, ttlMs });
      if (ok) checkNotLate(scheduledAtMs, ttlMs);
      return ok;
    },
    close,
    [Symbol.asyncDispose]: () => close(),
  };
}

/**
 * Returns the key of a run: the task's name with the minute and second of its time. Keys with the whole
 * time would leave a new fence counter in the store with every run.
 * @param {string} run
 */
function keyOf(run) {
  const [, name, time, minuteAndSecond] = RUN.exec(run) ?? [];
  if (time === undefined) return { key: `cron:${run}`, scheduledAtMs: undefined };
  return { key: `cron:${name}:${minuteAndSecond}`, scheduledAtMs: Date.parse(time) };
}

/**
 * Throws if the run's lock may have expired since another process ran it: this process was suspended,
 * or the store took long. Half of the time is left for clocks that differ.
 * @param {number | undefined} scheduledAtMs
 * @param {number} ttlMs
 */
function checkNotLate(scheduledAtMs, ttlMs) {
  if (scheduledAtMs === undefined) return;
  const lateMs = Date.now() - scheduledAtMs;
  if (lateMs <= ttlMs / 2) return;
  throw new LockError(
    "AcquisitionTimeout",
    `This run is ${lateMs} ms late and its lock lasts ${ttlMs} ms, so another process may have done it. ` +
      "It is skipped. If runs may be that late, set minHoldMs to more than twice the delay",
  );
}

/** @param {RunCoordinatorOptions} [options] */
function readMinHold(options = {}) {
  if (typeof options !== "object" || options === null) {
    throw invalidArgument("The options of createRunCoordinator() must be an object");
  }
  for (const name of Object.keys(options)) {
    if (name !== "minHoldMs") throw unknownOption(name, ["minHoldMs"]);
  }
  const { minHoldMs = DEFAULT_MIN_HOLD_MS } = options;
  if (!Number.isInteger(minHoldMs) || minHoldMs < 1 || minHoldMs > LONGEST_HOLD_MS) {
    throw invalidArgument(
      `minHoldMs must be an integer from 1 to ${LONGEST_HOLD_MS} (milliseconds)`,
    );
  }
  return minHoldMs;
}
