// syncguard/postgres: locks in PostgreSQL.

import type {
  ConnectionOptions,
  FencingCapabilities,
  ManagedLockBackend,
  TlsOptions,
} from "./backend.js";
import type { ManagedLock } from "./lock.js";

/** What the PostgreSQL backend can do. */
export interface PostgresCapabilities extends FencingCapabilities {
  backend: "postgres";
  timeAuthority: "server";
}

/** Where locks are: SQL identifiers, with a schema if need be. */
export interface PostgresTables {
  /** Default "syncguard_locks". */
  tableName?: string | undefined;
  /** Fence counters; another table than that of the locks. Default "syncguard_fence_counters". */
  fenceTableName?: string | undefined;
}

/** Options of the PostgreSQL backend. */
export interface PostgresBackendOptions extends ConnectionOptions, PostgresTables {
  /** Let isLocked() remove locks that have long expired. Default false. */
  cleanupInIsLocked?: boolean | undefined;
  /** How many connections may be open at once. Default: the URL's connection_limit, or else 10. */
  poolSize?: number | undefined;
  /** Connections that nobody needed for this long are closed. Default 60,000 ms. */
  idleTimeoutMs?: number | undefined;
  /**
   * false: no prepared statements. Behind a pooler such as PgBouncer this is found out by itself;
   * saying it saves the attempt.
   */
  prepare?: boolean | undefined;
}

/** The options with their defaults filled in. */
export interface PostgresConfig extends PostgresBackendOptions {
  tableName: string;
  fenceTableName: string;
  cleanupInIsLocked: boolean;
}

/** As in Node's `tls.connect()`. */
export interface PostgresTlsOptions extends TlsOptions {}

/** How to reach the server. What is left out comes from libpq's environment: PGHOST and so on. */
export interface PostgresConnectionOptions {
  /**
   * `postgres://user:password@host:port/database?sslmode=…`, also with the parameters that Prisma and
   * pg have in it, such as `schema`; the other options win over it.
   */
  url?: string | URL | undefined;
  /** The same as `url`. */
  connectionString?: string | undefined;
  /** A name, an address, the directory of a Unix socket, or several to try in turn. */
  host?: string | string[] | undefined;
  /** Default 5432. */
  port?: number | string | (number | string)[] | undefined;
  /** Default: the name of the user. */
  database?: string | undefined;
  /** Default: the user of this process. */
  user?: string | undefined;
  /** The same as `user`. */
  username?: string | undefined;
  password?: string | undefined;
  /**
   * true or an object: TLS with a verified certificate. A string is libpq's sslmode: "disable",
   * "prefer", "require", "verify-ca" or "verify-full", or pg's "no-verify". Default "prefer".
   */
  ssl?: boolean | string | PostgresTlsOptions | undefined;
  /** Command-line options for the server, such as "-c search_path=app". */
  options?: string | undefined;
  /** Shown by pg_stat_activity. Default "syncguard". */
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

/** Nothing means libpq's environment. An options object may also hold the backend's options. */
export type PostgresTarget =
  | string
  | URL
  | (PostgresConnectionOptions & PostgresBackendOptions)
  | PostgresJsClient
  | PgPool
  | PgClient
  | undefined;

/**
 * A backend on a PostgreSQL database. It connects on first use; setupSchema() makes the tables.
 *
 * @example
 * await setupSchema(process.env.DATABASE_URL);
 * const backend = createPostgresBackend(process.env.DATABASE_URL, { poolSize: 5 });
 */
export function createPostgresBackend(
  target?: PostgresTarget,
  options?: PostgresBackendOptions,
): ManagedLockBackend<PostgresCapabilities>;

/** `lock` on a PostgreSQL database. */
export function createLock(
  target?: PostgresTarget,
  options?: PostgresBackendOptions,
): ManagedLock<PostgresCapabilities>;

/**
 * Creates the tables where they do not exist. May run in several processes at once.
 *
 * @example
 * await setupSchema("postgres://db.internal/app", { tableName: "app.locks" });
 */
export function setupSchema(
  target?: PostgresTarget,
  options?: PostgresBackendOptions,
): Promise<void>;
