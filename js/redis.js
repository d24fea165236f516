// Locks in Redis or Valkey: one server, Sentinel or Cluster.

export { createLock, createRedisBackend } from "./targets/redis/backend.js";
