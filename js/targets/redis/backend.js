// Locks in Redis or Valkey: one server, Sentinel or Cluster.

import { createNativeBackend } from "../../native/backend.js";
import { createManagedLock, reading } from "../shared.js";
import { createEvalBackend } from "./eval.js";
import { readTarget } from "./target.js";

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
  const { client, config, hooks } = reading("createRedisBackend()", () =>
    readTarget(target, options),
  );
  return client === undefined
    ? createNativeBackend("redis", config, hooks, CAPABILITIES)
    : createEvalBackend(client, config, hooks, CAPABILITIES);
}

/**
 * @param {any} [target]
 * @param {any} [options]
 */
export function createLock(target, options) {
  return createManagedLock(createRedisBackend(target, options));
}
