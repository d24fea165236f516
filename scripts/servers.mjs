// Real servers for tests and benchmarks. Each runs on a free port in a temporary directory, and ends
// with the process that started it. All have `stop()`, `kill()`, `restart()`, `suspend()` and
// `resume()`.
export { libuv, nssWrapper, requirePrograms } from "./servers/programs.mjs";
export { freePort } from "./servers/ports.mjs";
export { startRedis } from "./servers/redis.mjs";
export { startRedisCluster } from "./servers/redis-cluster.mjs";
export { startRedisSentinel } from "./servers/redis-sentinel.mjs";
export { startPostgres } from "./servers/postgres.mjs";
export { startPgBouncer } from "./servers/pgbouncer.mjs";
export { buildFirestore, startFirestore } from "./servers/firestore.mjs";
