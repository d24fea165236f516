import { LockError, lock, type Fence } from "syncguard";
import { BACKEND_LIMITS } from "syncguard/common";
import { createFirestoreBackend } from "syncguard/firestore";
import { createMemoryBackend } from "syncguard/memory";
import { createPostgresBackend } from "syncguard/postgres";
import { createRedisBackend, type RedisBackendOptions } from "syncguard/redis";
import { createSqliteBackend } from "syncguard/sqlite";

const options: RedisBackendOptions = { keyPrefix: "app" };
const others = [
  createFirestoreBackend,
  createPostgresBackend,
  createRedisBackend,
  createSqliteBackend,
];

async function main(): Promise<void> {
  const backend = createMemoryBackend();
  const fence: Fence = await lock(backend, (context) => context.fence, { key: "k" });
  const refused: unknown = await backend.acquire({ key: "", ttlMs: 1 }).catch((error) => error);
  const complete = others.length === 4 && BACKEND_LIMITS.REDIS && options.keyPrefix;
  console.log("locked", fence, Boolean(complete) && refused instanceof LockError);
}

void main();
