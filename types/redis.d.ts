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
   * What all keys in Redis start with. Default "syncguard". On a cluster, locks are spread over all
   * masters, unless the prefix has a `{tag}`.
   */
  keyPrefix?: string | undefined;
  /** Let isLocked() remove locks that have long expired. Default false. */
  cleanupInIsLocked?: boolean | undefined;
  /** Open a native connection, or send the scripts through the given client's `eval`. */
  transport?: "native" | "client" | undefined;
}

/** The options with their defaults filled in. */
export interface RedisConfig extends RedisBackendOptions {
  keyPrefix: string;
  cleanupInIsLocked: boolean;
}

/** What is stored of a lock, as JSON. */
export interface LockData {
  lockId: string;
  expiresAtMs: number;
  acquiredAtMs: number;
  key: string;
  fence: Fence;
}

/** Where a server is. */
export interface RedisNode {
  /** Default "127.0.0.1". */
  host?: string | undefined;
  /** Default 6379, of a sentinel 26379. */
  port?: number | undefined;
}

/** As in Node's `tls.connect()`. */
export interface RedisTlsOptions extends TlsOptions {}

/** How to reach Redis; the options of the backend may stand in the same object. */
export interface RedisConnectionOptions extends RedisBackendOptions {
  /** For what the other options leave open. */
  url?: string | URL | undefined;
  /** Default "127.0.0.1". */
  host?: string | undefined;
  /** Default 6379. */
  port?: number | undefined;
  /** A Unix socket. */
  path?: string | undefined;
  /** 4 or 6, to use only that version of IP. */
  family?: number | undefined;
  /** The number of the database. Default 0. */
  db?: number | undefined;
  username?: string | undefined;
  password?: string | undefined;
  /** true or an object: TLS with a verified certificate. Default false. */
  tls?: boolean | RedisTlsOptions | undefined;
  /** Shown by CLIENT LIST. */
  connectionName?: string | undefined;
  /** Some sentinels: the others are found. With `name`. */
  sentinels?: readonly (RedisNode | string)[] | undefined;
  /** The master group's name, with `sentinels`. */
  name?: string | undefined;
  sentinelUsername?: string | undefined;
  sentinelPassword?: string | undefined;
  /** TLS with the sentinels. Default false. */
  sentinelTLS?: boolean | RedisTlsOptions | undefined;
  /** Some nodes of a cluster: the others are found. */
  cluster?: readonly (RedisNode | string | number)[] | undefined;
  /** Where servers are reached that call themselves `host:port`. */
  natMap?: Readonly<Record<string, RedisNode>> | undefined;
}

/** Anything that can run a script: a mock, a wrapper. */
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

/** Nothing means REDIS_URL, or else redis://127.0.0.1:6379. */
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
 * A backend on Redis or Valkey: one server, Sentinel or Cluster. It connects on first use.
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

/** `lock` on Redis or Valkey. */
export function createLock(
  target?: RedisTarget,
  options?: RedisBackendOptions,
): ManagedLock<RedisCapabilities>;
