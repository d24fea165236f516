// Locks in PostgreSQL.

import { openNative, settled } from "../../native/bridge.js";
import { LONGEST_TIMER_MS } from "../../base/config.js";
import { invalidArgument, replyError, unreadableOptions } from "../../base/errors.js";
import { createNativeBackend } from "../../native/backend.js";
import { isClient, readTarget } from "./target.js";
import { createAutoLock } from "../../lock/lock.js";

const CAPABILITIES = /** @type {const} */ ({
  backend: "postgres",
  supportsFencing: true,
  timeAuthority: "server",
});

/**
 * Connects on first use. Without a client everything may be in one object.
 * @param {any} [target] a URL, connection options, postgres.js' `sql`, a pg Pool or Client, or
 *   nothing: the environment
 * @param {any} [options]
 */
export function createPostgresBackend(target, options) {
  const given = allOptions(target, options);
  const config = readConfig("createPostgresBackend()", target, given);
  return createNativeBackend("postgres", config, given, CAPABILITIES);
}

/**
 * @param {any} [target]
 * @param {any} [options]
 */
export function createLock(target, options) {
  return createAutoLock(createPostgresBackend(target, options));
}

/**
 * Makes the tables where they do not exist yet.
 * @param {any} [target]
 * @param {any} [options]
 */
export async function setupSchema(target, options) {
  const config = readConfig("setupSchema()", target, allOptions(target, options));
  const native = openNative("postgres", config);
  const started = native.setup();
  const reply = typeof started === "string" ? started : await settled(started);
  native.close(0);
  if (reply !== "1") throw replyError(reply);
}

/**
 * @param {any} target
 * @param {any} options
 */
function allOptions(target, options) {
  const inOne =
    options === undefined &&
    typeof target === "object" &&
    target !== null &&
    !(target instanceof URL) &&
    !isClient(target);
  return (inOne ? target : options) ?? undefined;
}

/**
 * @param {string} call
 * @param {any} target
 * @param {any} options
 */
function readConfig(call, target, options) {
  const connection = readTarget(target);
  let config;
  try {
    const { tableName, fenceTableName, cleanupInIsLocked } = options ?? {};
    const { poolSize, idleTimeoutMs, prepare = connection.prepare } = options ?? {};
    const { connectTimeoutMs, operationTimeoutMs } = options ?? {};
    config = {
      ...connection,
      tableName,
      fenceTableName,
      cleanupInIsLocked,
      poolSize,
      idleTimeoutMs,
      prepare,
      connectTimeoutMs,
      operationTimeoutMs,
    };
  } catch (cause) {
    throw unreadableOptions(call, options, cause);
  }
  checkType("tableName", config.tableName, "string");
  checkType("fenceTableName", config.fenceTableName, "string");
  checkType("cleanupInIsLocked", config.cleanupInIsLocked, "boolean");
  checkType("prepare", config.prepare, "boolean");
  checkPositive("poolSize", config.poolSize);
  checkPositive("idleTimeoutMs", config.idleTimeoutMs);
  checkPositive("connectTimeoutMs", config.connectTimeoutMs);
  checkPositive("operationTimeoutMs", config.operationTimeoutMs);
  return config;
}

/**
 * @param {string} name
 * @param {unknown} value
 * @param {string} type
 */
function checkType(name, value, type) {
  if (value !== undefined && typeof value !== type) {
    throw invalidArgument(`${name} must be a ${type}`);
  }
}

/**
 * @param {string} name
 * @param {unknown} value
 */
function checkPositive(name, value) {
  const valid = Number.isInteger(value) && Number(value) > 0 && Number(value) <= LONGEST_TIMER_MS;
  if (value !== undefined && !valid) throw invalidArgument(`${name} must be a positive integer`);
}
