// syncguard/redis

import type { AutoLock, FencingCapabilities, ManagedLockBackend } from "../index.js";
import type { ConnectionOptions } from "./options.js";

export interface RedisCapabilities extends FencingCapabilities {
  backend: "redis";
  timeAuthority: "server";
}

export interface RedisBackendOptions extends ConnectionOptions {
  /** Default "syncguard". */
  keyPrefix?: string | undefined;
  /** Let isLocked() remove locks that have long expired. Default false. */
  cleanupInIsLocked?: boolean | undefined;
  /** Open a native connection, or send the scripts through the given client's `eval`. */
  transport?: "native" | "client" | undefined;
}

export interface RedisNode {
  host?: string | undefined;
  port?: number | undefined;
}

/** As in Node's `tls.connect`: PEM. */
export interface RedisTlsOptions {
  /** Replaces the system's roots. */
  ca?: string | Uint8Array | readonly (string | Uint8Array)[] | undefined;
  cert?: string | Uint8Array | undefined;
  key?: string | Uint8Array | undefined;
  servername?: string | undefined;
  /** Default true. */
  rejectUnauthorized?: boolean | undefined;
}

/** How to reach Redis; the options of the backend may stand in the same object. */
export interface RedisConnectionOptions extends RedisBackendOptions {
  /** For what the other options leave open. */
  url?: string | URL | undefined;
  host?: string | undefined;
  port?: number | undefined;
  /** A Unix socket. */
  path?: string | undefined;
  /** 4 or 6, to use only that version of IP. */
  family?: number | undefined;
  db?: number | undefined;
  username?: string | undefined;
  password?: string | undefined;
  tls?: boolean | RedisTlsOptions | undefined;
  /** Shown by CLIENT LIST. */
  connectionName?: string | undefined;
  sentinels?: readonly (RedisNode | string)[] | undefined;
  /** The master group's name, with `sentinels`. */
  name?: string | undefined;
  sentinelUsername?: string | undefined;
  sentinelPassword?: string | undefined;
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

/** Nothing means REDIS_URL, or else redis://127.0.0.1:6379. */
export type RedisTarget =
  | string
  | URL
  | RedisConnectionOptions
  | IoRedisClient
  | NodeRedisClient
  | RedisEvalClient
  | undefined;

export function createRedisBackend(
  target?: RedisTarget,
  options?: RedisBackendOptions,
): ManagedLockBackend<RedisCapabilities>;

export function createLock(
  target?: RedisTarget,
  options?: RedisBackendOptions,
): AutoLock<RedisCapabilities>;
