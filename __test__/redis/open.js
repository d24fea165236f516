// Redis backends for tests, and what the processes of a stress run call.

import { randomBytes } from "node:crypto";
import Redis from "ioredis";
import { createRedisBackend } from "../../js/redis.js";

/** A key prefix that nobody else uses. */
export const prefix = () => `t_${randomBytes(6).toString("hex")}`;

export function open({ target, ...options } = {}) {
  return createRedisBackend(target, options);
}

/** An ioredis client that is quiet about a server that goes away. */
export function ioredis(target = process.env.REDIS_URL, options = {}) {
  const client = typeof target === "string" ? new Redis(target, options) : new Redis(target);
  client.on("error", () => {});
  return client;
}
