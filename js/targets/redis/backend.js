// Locks in Redis or Valkey: one server, Sentinel or Cluster.

import { createNativeBackend } from "../../native/backend.js";
import { withCredentials } from "../credentials.js";
import { checkTarget, createManagedLock, reading } from "../shared.js";
import { registerClient } from "./client.js";
import { KNOWN } from "./options.js";
import { readTarget } from "./target.js";

const CAPABILITIES = /** @type {const} */ ({
  backend: "redis",
  supportsFencing: true,
  timeAuthority: "server",
});

/**
 * Creates a backend that connects on first use.
 * @param {any} [target] a URL, connection options, a client, or nothing: REDIS_URL
 * @param {any} [options]
 */
export function createRedisBackend(target, options) {
  checkTarget(arguments, KNOWN);
  const { client, config, hooks, askCredentials } = reading("createRedisBackend()", () =>
    readTarget(target, options),
  );
  if (client === undefined) {
    return withCredentials(askCredentials, "The credentialsProvider of the client", (asked) =>
      createNativeBackend("redis", { ...config, ...asked }, hooks, CAPABILITIES),
    );
  }
  const asked = registerClient(client);
  const cluster = client.kind.endsWith("-cluster");
  const { connectTimeoutMs: _unused, ...rest } = config;
  const overClient = { ...rest, cluster };
  return createNativeBackend("redis-client", overClient, hooks, CAPABILITIES, asked);
}

/** @param {[target?: any, options?: any]} args */
export function createLock(...args) {
  return createManagedLock(createRedisBackend(...args));
}
