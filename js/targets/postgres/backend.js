// Locks in PostgreSQL.

import { replyError } from "../../base/errors.js";
import { createNativeBackend } from "../../native/backend.js";
import { openNative, settled } from "../../native/bridge.js";
import { createManagedLock, noteUndefined, reading } from "../shared.js";
import { readTarget } from "./target.js";

const CAPABILITIES = /** @type {const} */ ({
  backend: "postgres",
  supportsFencing: true,
  timeAuthority: "server",
});

const KIND = "PostgreSQL";
const INSTEAD = "libpq's environment (PGHOST and so on), or else localhost,";

/**
 * Connects on first use. Without a client everything may be in one object.
 * @param {any} [target] a URL, connection options, postgres.js' `sql`, a pg Pool or Client, or
 *   nothing: the environment
 * @param {any} [options]
 */
export function createPostgresBackend(target, options) {
  noteUndefined(arguments, KIND, INSTEAD);
  const { config, hooks } = reading("createPostgresBackend()", () => readTarget(target, options));
  return createNativeBackend("postgres", config, hooks, CAPABILITIES);
}

/** @param {[target?: any, options?: any]} args */
export function createLock(...args) {
  return createManagedLock(createPostgresBackend(...args));
}

/**
 * Makes the tables where they do not exist yet.
 * @param {any} [target]
 * @param {any} [options]
 */
export async function setupSchema(target, options) {
  noteUndefined(arguments, KIND, INSTEAD);
  const { config } = reading("setupSchema()", () => readTarget(target, options));
  const native = openNative("postgres", config);
  const started = native.setup();
  const reply = typeof started === "string" ? started : await settled(started);
  native.close(0);
  if (reply !== "1") throw replyError(reply);
}
