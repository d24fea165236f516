// Locks in PostgreSQL.

import { readHolderLabel } from "../../base/config.js";
import { replyError } from "../../base/errors.js";
import { createNativeBackend } from "../../native/backend.js";
import { settled } from "../../native/bridge.js";
import { openNative } from "../../native/open.js";
import { withCredentials } from "../credentials.js";
import { checkTarget, createManagedLock, reading } from "../shared.js";
import { KNOWN, readTarget } from "./target.js";

const PASSWORD_FUNCTION = "The function for the PostgreSQL password";

const CAPABILITIES = /** @type {const} */ ({
  backend: "postgres",
  supportsFencing: true,
  timeAuthority: "server",
});

/**
 * Creates a backend that connects on first use. Without a client, all options can be in one object.
 * @param {any} [target] a URL, connection options, postgres.js' `sql`, a pg Pool or Client, or
 *   nothing: the environment
 * @param {any} [options]
 */
export function createPostgresBackend(target, options) {
  checkTarget(arguments, KNOWN);
  const { config, hooks, askPassword } = reading("createPostgresBackend()", () =>
    readTarget(target, options),
  );
  return withCredentials(askPassword, PASSWORD_FUNCTION, (asked) =>
    createNativeBackend("postgres", { ...config, ...asked }, hooks, CAPABILITIES),
  );
}

/** @param {[target?: any, options?: any]} args */
export function createLock(...args) {
  return createManagedLock(createPostgresBackend(...args));
}

/**
 * Opens a native backend to create its tables. There, the option `holderLabel` may be `true`, because the
 * tables are the same for any label.
 * @param {string} call
 * @param {any} target
 * @param {any} options
 */
function openForSchema(call, target, options) {
  const { config, hooks, askPassword } = reading(call, () => readTarget(target, options));
  if (typeof hooks.holderLabel !== "boolean") readHolderLabel(hooks);
  return withCredentials(askPassword, PASSWORD_FUNCTION, (asked) =>
    openNative("postgres", { ...config, ...asked }),
  );
}

/**
 * Returns the SQL that setupSchema() runs. Does not connect.
 * @param {any} target
 * @param {any} [options]
 * @returns {string}
 */
export function schemaSql(target, options) {
  const native = openForSchema("schemaSql()", target, options);
  const sql = native.schema();
  native.close(0);
  return sql ?? "";
}

/**
 * Creates the tables that do not exist yet.
 * @param {any} [target]
 * @param {any} [options]
 */
export async function setupSchema(target, options) {
  checkTarget(arguments, KNOWN);
  const native = openForSchema("setupSchema()", target, options);
  const started = native.setup();
  const reply = typeof started === "string" ? started : await settled(started);
  native.close(0);
  if (reply !== "1") throw replyError(reply);
}
