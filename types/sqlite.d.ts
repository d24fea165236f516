// syncguard/sqlite: locks on one host, for any number of processes.

import type { ConnectionOptions, FencingCapabilities, ManagedLockBackend } from "./backend.js";
import type { ManagedLock } from "./lock.js";

/** What the SQLite backend can do. */
export interface SqliteCapabilities extends FencingCapabilities {
  backend: "sqlite";
  timeAuthority: "server";
}

/** Options of the SQLite backend. */
export interface SqliteBackendOptions extends ConnectionOptions {
  /**
   * "full" (the default): a fence that was handed out survives a power cut. "normal": it survives
   * the end of the process, however that comes, and each operation is much faster.
   */
  durability?: "full" | "normal" | undefined;
}

/** Which file; the options of the backend may stand in the same object. */
export interface SqliteConnectionOptions extends SqliteBackendOptions {
  /** Made if need be. Default: one file per user, in the system's temp directory. */
  path?: string | undefined;
}

/**
 * A path, a `sqlite:` or `file:` URL, or nothing: one file for all processes of this user on this
 * host, in the system's temp directory. A container or pod has its own, and so has a service with
 * systemd's PrivateTmp.
 */
export type SqliteTarget = string | URL | SqliteConnectionOptions | undefined;

/**
 * A backend on a file. It is opened on first use.
 *
 * @example
 * const backend = createSqliteBackend("/var/lib/app/locks.db", { durability: "normal" });
 */
export function createSqliteBackend(
  target?: SqliteTarget,
  options?: SqliteBackendOptions,
): ManagedLockBackend<SqliteCapabilities>;

/** `lock` on a file. */
export function createLock(
  target?: SqliteTarget,
  options?: SqliteBackendOptions,
): ManagedLock<SqliteCapabilities>;
