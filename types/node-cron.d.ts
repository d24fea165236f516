// syncguard/node-cron: a scheduled task of node-cron runs once per fleet.

import type { BackendCapabilities, CloseOptions, CustomLockBackend } from "./backend.js";

/** Options of `createRunCoordinator()`. */
export interface RunCoordinatorOptions {
  /**
   * How long it is remembered at least, in milliseconds, that a run was taken. Choose more than twice
   * the time by which the clocks of your hosts may differ, or by which a run may be late. A longer
   * `distributedLease` of the task takes precedence. Default 30,000; at most 1,800,000.
   */
  minHoldMs?: number | undefined;
}

/** What `cron.setRunCoordinator()` and the task option `runCoordinator` take. */
export interface RunCoordinator {
  /**
   * Called by node-cron before each run. Resolves to true in one process of the fleet. Rejects if the
   * store cannot be reached: node-cron then skips the run.
   */
  shouldRun: (key: string, ttlMs: number) => Promise<boolean>;
  /** Closes the backend if the coordinator was created with a URL. A backend of your own stays open. */
  close: (options?: CloseOptions) => Promise<void>;
  [Symbol.asyncDispose]: () => Promise<void>;
}

/**
 * Returns a coordinator for node-cron 4.4 or later: each run of a task with the options `name` and
 * `distributed: true` happens in one process of the fleet. Without arguments it uses the environment
 * variable SYNCGUARD_URL, or else the host's SQLite file.
 *
 * @example
 * cron.setRunCoordinator(createRunCoordinator("redis://cache.internal:6379"));
 * cron.schedule("0 3 * * *", sendReport, { name: "report", distributed: true });
 */
export function createRunCoordinator(): RunCoordinator;
export function createRunCoordinator<C extends BackendCapabilities>(
  target: string | URL | CustomLockBackend<C>,
  options?: RunCoordinatorOptions,
): RunCoordinator;
