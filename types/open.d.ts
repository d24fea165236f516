// Backends by URL.

import type { ManagedLockBackend } from "./backend.js";
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

/** Of a URL that is known only at run time: any. */
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
 * A backend by URL: `redis:`, `rediss:`, `postgres:`, `postgresql:`, `firestore:`, `sqlite:` or
 * `memory:`. The options are those of the backend.
 *
 * @example
 * const backend = createBackend("redis://cache.internal:6379", { keyPrefix: "app" });
 */
export function createBackend<Url extends string | URL>(
  url: Url,
  options?: OptionsOf<Url>,
): ManagedLockBackend<CapabilitiesOf<Url>>;

/**
 * `lock` on the backend of a URL.
 *
 * @example
 * await using lock = createLock("postgres://db.internal/app");
 * await lock(work, { key: "report" });
 */
export function createLock<Url extends string | URL>(
  url: Url,
  options?: OptionsOf<Url>,
): ManagedLock<CapabilitiesOf<Url>>;

export {};
