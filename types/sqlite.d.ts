// syncguard/sqlite: locks for any number of processes on one host.

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
   * "full" (the default): fences survive a power failure. "normal": they survive a crash of the
   * process, and every operation is much faster.
   */
  durability?: "full" | "normal" | undefined;
  /**
   * Allows a file on a network file system (NFS, SMB, sshfs …). Default false: such a file is refused,
   * because its locks do not exclude other hosts.
   */
  allowNetworkFileSystem?: boolean | undefined;
}

/** Which file to use. The same object can also hold the options of the backend. */
export interface SqliteConnectionOptions extends SqliteBackendOptions {
  /** The path of the file, which is created if it does not exist. Default: one per user, in the home directory. */
  path?: string | undefined;
}

/**
 * A path or a `sqlite:` or `file:` URL. Without a target, all processes of this user on this host share
 * one file. It is in the home directory that the user database names, or in the directory that the
 * environment variable SYNCGUARD_STATE_DIR names. A container or pod has one of its own. `undefined`
 * compiles, but the call then throws "InvalidArgument", so that a missing variable does not silently
 * lead to another file.
 */
export type SqliteTarget = string | URL | SqliteConnectionOptions | undefined;

/**
 * Creates a backend on a file, which is opened on first use.
 *
 * @example
 * const backend = createSqliteBackend("/var/lib/app/locks.db", { durability: "normal" });
 */
export function createSqliteBackend(
  target?: SqliteTarget,
  options?: SqliteBackendOptions,
): ManagedLockBackend<SqliteCapabilities>;

/** Returns `lock`, bound to a backend on a file. */
export function createLock(
  target?: SqliteTarget,
  options?: SqliteBackendOptions,
): ManagedLock<SqliteCapabilities>;
