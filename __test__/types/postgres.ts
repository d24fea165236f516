// Everything that may be a target of the PostgreSQL backend.

import pg from "pg";
import postgres from "postgres";
import { createLock, createPostgresBackend, setupSchema } from "syncguard/postgres";
import type { PostgresConfig, PostgresTarget } from "syncguard/postgres";

export const targets: PostgresTarget[] = [
  undefined,
  "postgres://localhost/db",
  new URL("postgres://localhost/db"),
  { host: ["a", "b"], port: [1, 2], user: "u", password: "p", database: "d", ssl: true },
  { host: "/run/postgresql", ssl: "verify-full", tableName: "app.locks", poolSize: 2 },
  { url: "postgres://localhost", ssl: { ca: Buffer.from(""), rejectUnauthorized: false } },
  { url: "postgres://localhost", password: async () => "p" },
  { host: "h", password: () => "p" },
  postgres("postgres://localhost/db"),
  new pg.Pool(),
  new pg.Client(),
];

export const backend = createPostgresBackend(targets[1], {
  tableName: "locks",
  fenceTableName: "fences",
  cleanupInIsLocked: true,
  prepare: false,
  connectTimeoutMs: 1_000,
  operationTimeoutMs: 1_000,
});
export const kind: "postgres" = backend.capabilities.backend;
export const authority: "server" = backend.capabilities.timeAuthority;
export const lock = createLock();
export const locked: Promise<string> = lock(({ fence }) => fence, { key: "k" });
export const closed: Promise<void> = lock.close();
export const done: Promise<void> = setupSchema(targets[1], { tableName: "locks" });
createPostgresBackend("postgres://h", { holderLabel: "host:1" });
setupSchema("postgres://h", { holderLabel: "host:1" });
setupSchema("postgres://h", { holderLabel: true });
// @ts-expect-error a backend's locks need the label itself
createPostgresBackend("postgres://h", { holderLabel: true });

const config: PostgresConfig = {
  tableName: "syncguard_locks",
  fenceTableName: "syncguard_fence_counters",
  cleanupInIsLocked: false,
};
createPostgresBackend("postgres://h", config);
// @ts-expect-error the defaults are filled in
({ tableName: "locks" }) satisfies PostgresConfig;

// @ts-expect-error a table name is a string
createPostgresBackend("postgres://h", { tableName: 7 });
// @ts-expect-error there is no such option
createPostgresBackend("postgres://h", { keyPrefix: "x" });
