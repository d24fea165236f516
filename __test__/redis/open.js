// Opens Redis backends for tests and for the processes of a stress run.

import { randomBytes } from "node:crypto";
import Redis from "ioredis";
import { createRedisBackend } from "../../js/redis.js";
import { until } from "../fixtures/wait.js";

/** Returns an unused key prefix. */
export const prefix = () => `t_${randomBytes(6).toString("hex")}`;

export function open({ target = process.env.REDIS_URL, ...options } = {}) {
  return createRedisBackend(target, options);
}

/** Opens an ioredis client that does not report a server that goes away. */
export function ioredis(target = process.env.REDIS_URL, options = {}) {
  const client = typeof target === "string" ? new Redis(target, options) : new Redis(target);
  client.on("error", () => {});
  return client;
}

/**
 * Makes the sentinels promote the other node. Until the old master learns that it is a replica, it
 * accepts writes that will be lost. Redis replicates that way, and this is not tested here.
 */
export async function failover(deployment) {
  await deployment.failover();
  await until(async () => {
    // A node that changes its role closes connections.
    const role = (node) => node.cli("role").catch(() => "changing");
    const roles = await Promise.all(deployment.nodes.map(role));
    if (roles.includes("changing")) return false;
    return roles.filter((role) => role.startsWith("master")).length === 1;
  }, "the old master to step down");
}
