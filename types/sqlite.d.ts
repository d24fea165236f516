// syncguard/sqlite: locks on one host, for any number of processes.

import type { AutoLock, FencingCapabilities, ManagedLockBackend } from "../index.js";
import type { ConnectionOptions } from "./options.js";

export interface SqliteCapabilities extends FencingCapabilities {
  backend: "sqlite";
  timeAuthority: "server";
}

export interface SqliteBackendOptions extends ConnectionOptions {}

/** A file path, or nothing: one file for all processes of this user on this host. */
export type SqliteTarget = string | undefined;

export function createSqliteBackend(
  target?: SqliteTarget,
  options?: SqliteBackendOptions,
): ManagedLockBackend<SqliteCapabilities>;

export function createLock(
  target?: SqliteTarget,
  options?: SqliteBackendOptions,
): AutoLock<SqliteCapabilities>;
