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
  /** How many connections may be open at once. Default 10. */
  poolSize?: number | undefined;
  /** Connections that nobody needed for this long are closed. Default 60,000 ms. */
  idleTimeoutMs?: number | undefined;
  /**
   * false: no prepared statements. Behind a pooler such as PgBouncer this is found out by itself;
   * saying it saves the attempt.
   */
  prepare?: boolean | undefined;
}

/** As in Node's tls.connect(). */
export interface PostgresTlsOptions {
  ca?: string | Buffer | (string | Buffer)[] | undefined;
  cert?: string | Buffer | undefined;
  key?: string | Buffer | undefined;
  servername?: string | undefined;
  rejectUnauthorized?: boolean | undefined;
}

/** What is left out comes from libpq's environment: PGHOST, PGUSER, PGPASSWORD and so on. */
export interface PostgresConnectionOptions {
  /** `postgres://user:password@host:port/database?sslmode=…`; the other options win over it. */
  url?: string | URL | undefined;
  connectionString?: string | undefined;
  /** A name, an address, the directory of a Unix socket, or several to try in turn. */
  host?: string | string[] | undefined;
  port?: number | string | (number | string)[] | undefined;
  database?: string | undefined;
  user?: string | undefined;
  username?: string | undefined;
  password?: string | undefined;
  /**
   * true or an object: TLS with a verified certificate. A string is libpq's sslmode: "disable",
   * "prefer", "require", "verify-ca" or "verify-full". Default "prefer".
   */
  ssl?: boolean | string | PostgresTlsOptions | undefined;
  /** Command-line options for the server, such as "-c search_path=app". */
  options?: string | undefined;
  applicationName?: string | undefined;
  /** "read-write": the host among several that accepts writes. */
  targetSessionAttrs?: "any" | "read-write" | "primary" | undefined;
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
  connect(...args: any[]): any;
  query(...args: any[]): any;
}

export type PostgresTarget =
  | string
  | URL
  | (PostgresConnectionOptions & PostgresBackendOptions)
  | PostgresJsClient
  | PgPool
  | PgClient
  | undefined;

export function createPostgresBackend(
  target?: PostgresTarget,
  options?: PostgresBackendOptions,
): ManagedLockBackend<PostgresCapabilities>;

export function createLock(
  target?: PostgresTarget,
  options?: PostgresBackendOptions,
): AutoLock<PostgresCapabilities>;

/** Creates the tables where they do not exist. May run in several processes at once. */
export function setupSchema(
  target?: PostgresTarget,
  options?: PostgresTables & Pick<ConnectionOptions, "connectTimeoutMs" | "operationTimeoutMs">,
): Promise<void>;
