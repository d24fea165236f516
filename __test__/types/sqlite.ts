// Everything that may be a target of the SQLite backend.

import { createLock, createSqliteBackend } from "syncguard/sqlite";
import type { SqliteTarget } from "syncguard/sqlite";

export const targets: SqliteTarget[] = [
  undefined,
  "/locks.db",
  "sqlite:/locks.db",
  new URL("file:///locks.db"),
  { path: "/locks.db", durability: "normal", disposeTimeoutMs: 5 },
  { path: "/mnt/locks.db", allowNetworkFileSystem: true },
];

export const backend = createSqliteBackend(targets[1], { durability: "full" });
export const kind: "sqlite" = backend.capabilities.backend;
export const authority: "server" = backend.capabilities.timeAuthority;
export const lock = createLock();
export const locked: Promise<string> = lock(({ fence }) => fence, { key: "k" });
export const closed: Promise<void> = lock.close();

// @ts-expect-error there is no such durability
createSqliteBackend("/locks.db", { durability: "low" });
// @ts-expect-error there is no such option
createSqliteBackend("/locks.db", { keyPrefix: "x" });
