// Locks in Redis or Valkey: one server, Sentinel or Cluster.

import { createNativeBackend } from "../../native/backend.js";
import { dismissWith } from "../../native/questions.js";
import { createManagedLock, noteUndefined, reading } from "../shared.js";
import { appointClient } from "./client.js";
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
  noteUndefined(arguments, "Redis", "REDIS_URL, or else redis://127.0.0.1:6379,");
  const { client, config, hooks } = reading("createRedisBackend()", () =>
    readTarget(target, options),
  );
  if (client === undefined) return createNativeBackend("redis", config, hooks, CAPABILITIES);
  const asked = appointClient(client);
  const cluster = client.kind.endsWith("-cluster");
  const { connectTimeoutMs: _unused, ...rest } = config;
  const overClient = { ...rest, cluster };
  const backend = createNativeBackend("redis-client", overClient, hooks, CAPABILITIES, asked);
  dismissWith(backend, asked);
  return backend;
}

/** @param {[target?: any, options?: any]} args */
export function createLock(...args) {
  return createManagedLock(createRedisBackend(...args));
}
