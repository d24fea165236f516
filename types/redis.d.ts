// syncguard/redis: locks in Redis or Valkey.

import type {
  ConnectionOptions,
  FencingCapabilities,
  ManagedLockBackend,
  TlsOptions,
} from "./backend.js";
import type { ManagedLock } from "./lock.js";
import type { Fence } from "./results.js";

/** What the Redis backend can do. */
export interface RedisCapabilities extends FencingCapabilities {
  backend: "redis";
  timeAuthority: "server";
}

/** Options of the Redis backend. */
export interface RedisBackendOptions extends ConnectionOptions {
  /**
   * The prefix of all keys in Redis. Default "syncguard". On a cluster, locks are spread over all
   * masters unless the prefix contains a `{tag}`.
   */
  keyPrefix?: string | undefined;
  /** Whether isLocked() also removes locks that expired long ago. Default false. */
  cleanupInIsLocked?: boolean | undefined;
  /**
   * "native" opens a connection of its own; "client" sends the scripts through the client's `eval`.
   * Default: "native" if the client's settings can be read.
   */
  transport?: "native" | "client" | undefined;
}

/** The options with their defaults filled in. */
export interface RedisConfig extends RedisBackendOptions {
  keyPrefix: string;
  cleanupInIsLocked: boolean;
}

/** What Redis stores for a lock, as JSON. */
export interface LockData {
  lockId: string;
  expiresAtMs: number;
  acquiredAtMs: number;
  key: string;
  fence: Fence;
}

/** The address of a server. */
export interface RedisNode {
  /** Default "127.0.0.1". */
  host?: string | undefined;
  /** Default 6379, or 26379 for a sentinel. */
  port?: number | undefined;
}

/** TLS options, as in Node's `tls.connect()`. */
export interface RedisTlsOptions extends TlsOptions {}

/** How to reach Redis. The same object can also hold the options of the backend. */
export interface RedisConnectionOptions extends RedisBackendOptions {
  /** Used for whatever the other options leave out. */
  url?: string | URL | undefined;
  /** Default "127.0.0.1". */
  host?: string | undefined;
  /** Default 6379. */
  port?: number | undefined;
  /** The path of a Unix socket. */
  path?: string | undefined;
  /** 4 or 6 to use only that version of IP. Default: both. */
  family?: number | undefined;
  /** The database number. Default 0. */
  db?: number | undefined;
  username?: string | undefined;
  password?: string | undefined;
  /** `true` or an object for TLS with a verified certificate. Default false. */
  tls?: boolean | RedisTlsOptions | undefined;
  /** The connection's name in CLIENT LIST. */
  connectionName?: string | undefined;
  /** Some sentinels; the others are discovered. Needs `name`. */
  sentinels?: readonly (RedisNode | string)[] | undefined;
  /** The name of the master group. Needs `sentinels`. */
  name?: string | undefined;
  sentinelUsername?: string | undefined;
  sentinelPassword?: string | undefined;
  /** TLS for the connections to sentinels. Default false. */
  sentinelTLS?: boolean | RedisTlsOptions | undefined;
  /** Some nodes of a cluster; the others are discovered. */
  cluster?: readonly (RedisNode | string | number)[] | undefined;
  /** Maps the `host:port` that a server announces to the address at which you reach it. */
  natMap?: Readonly<Record<string, RedisNode>> | undefined;
}

/** Any object that can run a script, such as a mock or a wrapper. */
export interface RedisEvalClient {
  eval(script: string, numKeys: number, ...args: any[]): any;
}

/** An ioredis client: its connection settings are read. */
export interface IoRedisClient {
  options: object;
  eval(...args: any[]): any;
}

/** A node-redis client: its connection settings are read. */
export interface NodeRedisClient {
  sendCommand(...args: any[]): any;
  eval(...args: any[]): any;
}

/** A client of @upstash/redis: the scripts are sent through it, over HTTP. */
export interface UpstashRedisClient {
  createScript(...args: any[]): any;
  eval(...args: any[]): any;
}

/**
 * Where Redis is. Without a target: REDIS_URL, or else redis://127.0.0.1:6379. `undefined` compiles,
 * so that you can pass `process.env.REDIS_URL`, but the call then throws "InvalidArgument", so that a
 * missing variable does not silently lead to another server.
 */
export type RedisTarget =
  | string
  | URL
  | RedisConnectionOptions
  | IoRedisClient
  | NodeRedisClient
  | UpstashRedisClient
  | RedisEvalClient
  | undefined;

/**
 * Creates a backend on Redis or Valkey: a single server, Sentinel or Cluster. It connects on first
 * use.
 *
 * @example
 * const backend = createRedisBackend("redis://cache.internal:6379", { keyPrefix: "app" });
 * @example
 * const backend = createRedisBackend(new Redis()); // an ioredis client: its settings are read
 */
export function createRedisBackend(
  target?: RedisTarget,
  options?: RedisBackendOptions,
): ManagedLockBackend<RedisCapabilities>;

/** Returns `lock`, bound to a backend on Redis or Valkey. */
export function createLock(
  target?: RedisTarget,
  options?: RedisBackendOptions,
): ManagedLock<RedisCapabilities>;
