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
  host: string;
  port?: number | undefined;
}

export interface RedisConnectionOptions {
  host?: string | undefined;
  port?: number | undefined;
  db?: number | undefined;
  username?: string | undefined;
  password?: string | undefined;
  tls?: boolean | object | undefined;
  /** A Unix socket. */
  path?: string | undefined;
  sentinels?: readonly RedisNode[] | undefined;
  /** The master's name, with `sentinels`. */
  name?: string | undefined;
  cluster?: readonly (RedisNode | string)[] | undefined;
  connectTimeoutMs?: number | undefined;
  operationTimeoutMs?: number | undefined;
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
