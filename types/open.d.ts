// Backends that are opened by URL.

import type { FencingCapabilities, ManagedLockBackend } from "./backend.js";
import type { FirestoreBackendOptions, FirestoreCapabilities } from "./firestore.js";
import type { ManagedLock } from "./lock.js";
import type { MemoryBackendOptions, MemoryCapabilities } from "./memory.js";
import type { PostgresBackendOptions, PostgresCapabilities } from "./postgres.js";
import type { RedisBackendOptions, RedisCapabilities } from "./redis.js";
import type { SqliteBackendOptions, SqliteCapabilities } from "./sqlite.js";

interface Kinds {
  redis: { options: RedisBackendOptions; capabilities: RedisCapabilities };
  postgres: { options: PostgresBackendOptions; capabilities: PostgresCapabilities };
  firestore: { options: FirestoreBackendOptions; capabilities: FirestoreCapabilities };
  sqlite: { options: SqliteBackendOptions; capabilities: SqliteCapabilities };
  memory: { options: MemoryBackendOptions; capabilities: MemoryCapabilities };
}

/** The kind of backend that a URL opens. A URL that is known only at run time can open any. */
type KindOf<Url> = Url extends `${"redis" | "rediss"}:${string}`
  ? "redis"
  : Url extends `${"postgres" | "postgresql"}:${string}`
    ? "postgres"
    : Url extends `${infer Kind extends "firestore" | "sqlite" | "memory"}:${string}`
      ? Kind
      : keyof Kinds;

type OptionsOf<Url> = Kinds[KindOf<Url>]["options"];
type CapabilitiesOf<Url> = Kinds[KindOf<Url>]["capabilities"];

/**
 * Creates the backend of a URL: `redis:`, `rediss:`, `postgres:`, `postgresql:`, `firestore:`,
 * `sqlite:` or `memory:`. The options are those of that backend. Without arguments it uses the
 * environment variable SYNCGUARD_URL, or else the host's SQLite file. A URL of `undefined` throws
 * "InvalidArgument": check that the environment variable you pass is set.
 *
 * @example
 * const backend = createBackend("redis://cache.internal:6379", { keyPrefix: "app" });
 */
export function createBackend(): ManagedLockBackend<FencingCapabilities>;
export function createBackend<Url extends string | URL>(
  url: Url,
  options?: OptionsOf<Url>,
): ManagedLockBackend<CapabilitiesOf<Url>>;

/**
 * Returns `lock`, bound to the backend of a URL. Without arguments it uses the environment variable
 * SYNCGUARD_URL, or else the host's SQLite file.
 *
 * @example
 * await using lock = createLock("postgres://db.internal/app");
 * await lock(work, { key: "report" });
 */
export function createLock(): ManagedLock;
export function createLock<Url extends string | URL>(
  url: Url,
  options?: OptionsOf<Url>,
): ManagedLock<CapabilitiesOf<Url>>;

export {};
