// Locks in Redis or Valkey: one server, Sentinel or Cluster.

import { unreadableOptions } from "../../base/errors.js";
import { createNativeBackend } from "../../native/backend.js";
import { createEvalBackend } from "./eval.js";
import { readTarget } from "./target.js";
import { createAutoLock } from "../../lock/lock.js";

const CAPABILITIES = /** @type {const} */ ({
  backend: "redis",
  supportsFencing: true,
  timeAuthority: "server",
});

/**
 * Connects on first use.
 * @param {any} [target] a URL, connection options, a client, or nothing: REDIS_URL
 * @param {any} [options]
 */
export function createRedisBackend(target, options) {
  const { client, config, hooks } = read(target, options);
  return client === undefined
    ? createNativeBackend("redis", config, hooks, CAPABILITIES)
    : createEvalBackend(client, config, hooks, CAPABILITIES);
}

/**
 * @param {any} [target]
 * @param {any} [options]
 */
export function createLock(target, options) {
  return createAutoLock(createRedisBackend(target, options));
}

/**
 * @param {any} target
 * @param {any} options
 */
function read(target, options) {
  try {
    return readTarget(target, options);
  } catch (error) {
    // A getter of the user's that threw.
    throw error instanceof Error && error.name === "LockError"
      ? error
      : unreadableOptions("createRedisBackend()", options ?? {}, error);
  }
}
