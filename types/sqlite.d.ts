// syncguard/sqlite: locks on one host, for any number of processes.

import type { AutoLock, FencingCapabilities, ManagedLockBackend } from "../index.js";
import type { ConnectionOptions } from "./options.js";

export interface SqliteCapabilities extends FencingCapabilities {
  backend: "sqlite";
  timeAuthority: "server";
}

export interface SqliteBackendOptions extends ConnectionOptions {
  /**
   * "full" (the default): a fence that was handed out survives a power cut. "normal": it survives
   * the end of the process, however that comes, and each operation is much faster.
   */
  durability?: "full" | "normal" | undefined;
}

/** The options with the path among them. */
export interface SqliteConfig extends SqliteBackendOptions {
  path?: string | undefined;
}

/**
 * A path, a `sqlite:` or `file:` URL, or nothing: one file for all processes of this user on this
 * host, in the system's temp directory.
 */
export type SqliteTarget = string | URL | SqliteConfig | undefined;

export function createSqliteBackend(
  target?: SqliteTarget,
  options?: SqliteBackendOptions,
): ManagedLockBackend<SqliteCapabilities>;

export function createLock(
  target?: SqliteTarget,
  options?: SqliteBackendOptions,
): AutoLock<SqliteCapabilities>;
