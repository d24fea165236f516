// Locks in a SQLite file: one host, any number of processes.

import { createNativeBackend } from "../../native/backend.js";
import { checkTarget, createManagedLock, reading } from "../shared.js";
import { KNOWN, readTarget } from "./target.js";

/** @import { ManagedLockBackend } from "../../../index.js" */
/** @import { SqliteCapabilities } from "../../../types/sqlite.js" */

const CAPABILITIES = /** @type {const} */ ({
  backend: "sqlite",
  supportsFencing: true,
  timeAuthority: "server",
});

// Two copies of SQLite in one process must not open the same file, because the system's file locks belong to
// the process. So the first copy of this package that was loaded opens files for all other copies.
const OPEN = Symbol.for("syncguard.sqlite.open.1");
if (!Object.hasOwn(globalThis, OPEN)) {
  Object.defineProperty(globalThis, OPEN, {
    /** @type {(config: object, options: unknown) => ManagedLockBackend<SqliteCapabilities>} */
    value: (config, options) => createNativeBackend("sqlite", config, options, CAPABILITIES),
  });
}

/**
 * Creates a backend. The file is opened on first use, and created if it does not exist. All options can
 * be in one object.
 * @param {any} [target] a path, a `sqlite:` or `file:` URL, options, or nothing: the user's own file
 * @param {any} [options]
 * @returns {ManagedLockBackend<SqliteCapabilities>}
 */
export function createSqliteBackend(target, options) {
  checkTarget(arguments, KNOWN);
  const { config, hooks } = reading("createSqliteBackend()", () => readTarget(target, options));
  return /** @type {any} */ (globalThis)[OPEN](config, hooks);
}

/** @param {[target?: any, options?: any]} args */
export function createLock(...args) {
  return createManagedLock(createSqliteBackend(...args));
}
