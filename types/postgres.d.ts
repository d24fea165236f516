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

/** The tables that hold locks and fences: SQL identifiers, optionally with a schema. */
export interface PostgresTables {
  /**
   * The table of locks. Default "syncguard_locks". The holders of shared keys are in another one, with
   * `_holders` behind this name.
   */
  tableName?: string | undefined;
  /** The table of fence counters, not the same as `tableName`. Default "syncguard_fence_counters". */
  fenceTableName?: string | undefined;
}

/** Options of the PostgreSQL backend. */
export interface PostgresBackendOptions extends ConnectionOptions, PostgresTables {
  /** Whether isLocked() also removes locks that expired long ago. Default false. */
  cleanupInIsLocked?: boolean | undefined;
  /**
   * How many connections may be open at once, for all purposes together. Default: the client's `max`,
   * the URL's `connection_limit`, or else 10. With fewer than 3, waiters poll.
   */
  poolSize?: number | undefined;
  /** Closes connections that have been idle this long, in milliseconds. Default 60,000. */
  idleTimeoutMs?: number | undefined;
  /**
   * Whether to use prepared statements. Default true. Poolers that do not support them, such as
   * PgBouncer, are detected; `false` saves the failed attempt.
   */
  prepare?: boolean | undefined;
}

/** Options of setupSchema(): the same as those of the backend that will use the tables. */
export interface PostgresSchemaOptions extends Omit<PostgresBackendOptions, "holderLabel"> {
  /** Anything but `false` adds the column for holder labels. Default: without it. */
  holderLabel?: string | boolean | undefined;
}

/** The options with their defaults filled in. */
export interface PostgresConfig extends PostgresBackendOptions {
  tableName: string;
  fenceTableName: string;
  cleanupInIsLocked: boolean;
}

/** TLS options, as in Node's `tls.connect()`. */
export interface PostgresTlsOptions extends TlsOptions {}

/** How to reach the server. Defaults come from libpq's environment variables: PGHOST and so on. */
export interface PostgresConnectionOptions {
  /**
   * `postgres://user:password@host:port/database?sslmode=…`. Parameters of Prisma and pg, such as
   * `schema`, are understood. The other options take precedence over it.
   */
  url?: string | URL | undefined;
  /** The same as `url`. */
  connectionString?: string | undefined;
  /** A host name, an address, the directory of a Unix socket, or several of these to try in turn. */
  host?: string | string[] | undefined;
  /** Default 5432. */
  port?: number | string | (number | string)[] | undefined;
  /** Default: the name of the user. */
  database?: string | undefined;
  /** Default: the user of this process. */
  user?: string | undefined;
  /** The same as `user`. */
  username?: string | undefined;
  /** A password, or a function that is called for each new connection, e.g. for short-lived tokens. */
  password?: string | (() => string | Promise<string>) | undefined;
  /**
   * `true` or an object for TLS with a verified certificate. A string is libpq's sslmode: "disable",
   * "prefer", "require", "verify-ca" or "verify-full", or pg's "no-verify". Default "prefer".
   */
  ssl?: boolean | string | PostgresTlsOptions | undefined;
  /** Command-line options for the server, such as "-c search_path=app". */
  options?: string | undefined;
  /** The connection's name in pg_stat_activity. Default "syncguard". */
  applicationName?: string | undefined;
  /** "read-write" picks the host that accepts writes, if there are several. */
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

/**
 * Where the database is. Without a target: libpq's environment variables. An options object can also
 * hold the backend's options. `undefined` compiles, so that you can pass `process.env.DATABASE_URL`,
 * but the call then throws "InvalidArgument", so that a missing variable does not silently lead to
 * another server.
 */
export type PostgresTarget =
  | string
  | URL
  | (PostgresConnectionOptions & PostgresBackendOptions)
  | PostgresJsClient
  | PgPool
  | PgClient
  | undefined;

/**
 * Creates a backend on a PostgreSQL database. It connects on first use. Call setupSchema() once to
 * create the tables.
 *
 * @example
 * await setupSchema(process.env.DATABASE_URL);
 * const backend = createPostgresBackend(process.env.DATABASE_URL, { poolSize: 5 });
 */
export function createPostgresBackend(
  target?: PostgresTarget,
  options?: PostgresBackendOptions,
): ManagedLockBackend<PostgresCapabilities>;

/** Returns `lock`, bound to a backend on a PostgreSQL database. */
export function createLock(
  target?: PostgresTarget,
  options?: PostgresBackendOptions,
): ManagedLock<PostgresCapabilities>;

/**
 * Creates the tables that do not exist yet. Several processes can call it at once. On the command
 * line, use `npx syncguard schema --url postgres://… --apply`; without `--apply` it prints the SQL.
 *
 * @example
 * await setupSchema("postgres://db.internal/app", { tableName: "app.locks" });
 */
export function setupSchema(
  target?: PostgresTarget,
  options?: PostgresSchemaOptions,
): Promise<void>;
