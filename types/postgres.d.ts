// syncguard/postgres

import type { AutoLock, FencingCapabilities, ManagedLockBackend } from "../index.js";
import type { ConnectionOptions } from "./options.js";

export interface PostgresCapabilities extends FencingCapabilities {
  backend: "postgres";
  timeAuthority: "server";
}

export interface PostgresTables {
  /** Default "syncguard_locks". */
  tableName?: string | undefined;
  /** Default "syncguard_fence_counters". */
  fenceTableName?: string | undefined;
}

export interface PostgresBackendOptions extends ConnectionOptions, PostgresTables {
  /** Let isLocked() remove locks that have long expired. Default false. */
  cleanupInIsLocked?: boolean | undefined;
}

export interface PostgresConnectionOptions {
  host?: string | undefined;
  port?: number | undefined;
  database?: string | undefined;
  user?: string | undefined;
  password?: string | undefined;
  ssl?: boolean | object | string | undefined;
}

/** A `sql` function of postgres.js: its connection settings are read. */
export interface PostgresJsClient {
  (...args: any[]): any;
  options: object;
}

/** A `Pool` of pg: its connection settings are read. */
export interface PgPool {
  options: object;
  query(...args: any[]): any;
}

/** A `Client` of pg: its connection settings are read. */
export interface PgClient {
  host: string;
  port: number;
  query(...args: any[]): any;
}

export type PostgresTarget =
  string | URL | PostgresConnectionOptions | PostgresJsClient | PgPool | PgClient | undefined;

export function createPostgresBackend(
  target?: PostgresTarget,
  options?: PostgresBackendOptions,
): ManagedLockBackend<PostgresCapabilities>;

export function createLock(
  target?: PostgresTarget,
  options?: PostgresBackendOptions,
): AutoLock<PostgresCapabilities>;

/** Creates the tables where they do not exist. May run in several processes at once. */
export function setupSchema(target?: PostgresTarget, options?: PostgresTables): Promise<void>;
