// Everything that may be a target of the Redis backend.

import { Redis as Upstash } from "@upstash/redis";
import { Redis } from "ioredis";
import { createClient, createCluster } from "redis";
import { createLock, createRedisBackend } from "syncguard/redis";
import type { LockData, RedisConfig, RedisTarget } from "syncguard/redis";

export const targets: RedisTarget[] = [
  undefined,
  "redis://localhost",
  new URL("rediss://localhost"),
  { host: "h", port: 1, db: 2, username: "u", password: "p", tls: true },
  { path: "/run/redis.sock", keyPrefix: "app" },
  { url: "rediss://h", tls: { ca: Buffer.from(""), rejectUnauthorized: false } },
  { sentinels: [{ host: "h", port: 1 }], name: "m", sentinelPassword: "p", natMap: {} },
  { cluster: ["h:1", { host: "h" }, 7000] },
  new Redis({ lazyConnect: true }),
  new Redis.Cluster([], { lazyConnect: true }),
  createClient(),
  createCluster({ rootNodes: [] }),
  new Upstash({ url: "https://h", token: "t" }),
  { eval: async () => 1 },
];

export const backend = createRedisBackend(targets[1], {
  keyPrefix: "app",
  cleanupInIsLocked: true,
  transport: "native",
  connectTimeoutMs: 1_000,
  operationTimeoutMs: 1_000,
});
// Refused when it is called, but known only then.
createRedisBackend(process.env["REDIS_URL"]);
export const kind: "redis" = backend.capabilities.backend;
export const authority: "server" = backend.capabilities.timeAuthority;
export const lock = createLock();
export const locked: Promise<string> = lock(({ fence }) => fence, { key: "k" });
export const closed: Promise<void> = lock.close();

const config: RedisConfig = { keyPrefix: "syncguard", cleanupInIsLocked: false };
createRedisBackend("redis://h", config);
// @ts-expect-error the defaults are filled in
({ keyPrefix: "syncguard" }) satisfies RedisConfig;
export const data: LockData = {
  lockId: "id",
  expiresAtMs: 2,
  acquiredAtMs: 1,
  key: "k",
  fence: "000000000000001",
};

// @ts-expect-error a key prefix is a string
createRedisBackend("redis://h", { keyPrefix: 7 });
// @ts-expect-error there is no such option
createRedisBackend("redis://h", { tableName: "x" });
// @ts-expect-error there is no such transport
createRedisBackend("redis://h", { transport: "pigeon" });
