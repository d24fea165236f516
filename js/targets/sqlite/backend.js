// Locks in a SQLite file: one host, any number of processes.

import { LONGEST_TIMER_MS } from "../../base/config.js";
import { invalidArgument, unreadableOptions } from "../../base/errors.js";
import { createNativeBackend } from "../../native/backend.js";
import { createAutoLock } from "../../lock/lock.js";
import { readTarget } from "./target.js";

/** @import { ManagedLockBackend } from "../../../index.js" */
/** @import { SqliteCapabilities } from "../../../types/sqlite.js" */

const CAPABILITIES = /** @type {const} */ ({
  backend: "sqlite",
  supportsFencing: true,
  timeAuthority: "server",
});

// Two copies of SQLite in one process must not open the same file: the system's file locks belong to
// the process. So whichever copy of this package came first opens files for all of them.
const OPEN = Symbol.for("syncguard.sqlite.open.1");
if (!Object.hasOwn(globalThis, OPEN)) {
  Object.defineProperty(globalThis, OPEN, {
    /** @type {(config: object, options: unknown) => ManagedLockBackend<SqliteCapabilities>} */
    value: (config, options) => createNativeBackend("sqlite", config, options, CAPABILITIES),
  });
}

const DURABILITIES = ["full", "normal"];

/**
 * The file is opened, and made if need be, on first use. Everything may be in one object.
 * @param {any} [target] a path, a `sqlite:` or `file:` URL, options, or nothing: the user's own file
 * @param {any} [options]
 */
export function createSqliteBackend(target, options) {
  const inUrl = readTarget(target);
  const inOne = options === undefined && typeof target === "object" && !(target instanceof URL);
  return open(inUrl, (inOne ? target : options) ?? undefined);
}

/**
 * @param {any} [target]
 * @param {any} [options]
 */
export function createLock(target, options) {
  return createAutoLock(createSqliteBackend(target, options));
}

/**
 * @param {import("./target.js").SqliteTargetConfig} target
 * @param {any} options these win over those of a URL
 */
function open(target, options) {
  let config;
  try {
    const {
      durability = target.durability,
      connectTimeoutMs = target.connectTimeoutMs,
      operationTimeoutMs = target.operationTimeoutMs,
    } = options ?? {};
    config = { ...target, durability, connectTimeoutMs, operationTimeoutMs };
  } catch (cause) {
    throw unreadableOptions("createSqliteBackend()", options, cause);
  }
  if (config.durability !== undefined && !DURABILITIES.includes(config.durability)) {
    throw invalidArgument('durability must be "full" or "normal"');
  }
  checkTimeout("connectTimeoutMs", config.connectTimeoutMs);
  checkTimeout("operationTimeoutMs", config.operationTimeoutMs);
  return /** @type {any} */ (globalThis)[OPEN](config, options);
}

/**
 * @param {string} name
 * @param {unknown} ms
 */
function checkTimeout(name, ms) {
  if (
    ms !== undefined &&
    !(Number.isInteger(ms) && Number(ms) > 0 && Number(ms) <= LONGEST_TIMER_MS)
  ) {
    throw invalidArgument(`${name} must be a positive integer (milliseconds)`);
  }
}
