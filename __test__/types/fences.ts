// A fencing backend's fence is there without a check; another backend's is not.

import { acquireHandle, hasFence, lock } from "syncguard";
import type { BackendCapabilities, CustomLockBackend, LockBackend } from "syncguard";
import { createMemoryBackend } from "syncguard/memory";
import type { FirestoreCapabilities } from "syncguard/firestore";
import type { PostgresCapabilities } from "syncguard/postgres";
import type { RedisCapabilities } from "syncguard/redis";
import type { SqliteCapabilities } from "syncguard/sqlite";

const memory = createMemoryBackend();
const result = await memory.acquire({ key: "k", ttlMs: 1000 });
if (result.ok) {
  result.fence satisfies string;
} else {
  result.reason satisfies "locked";
  // @ts-expect-error nothing was acquired
  result.fence;
}
// @ts-expect-error not before `ok` is known
result.fence;

async function fenceOf<
  C extends RedisCapabilities | PostgresCapabilities | FirestoreCapabilities | SqliteCapabilities,
>(backend: LockBackend<C>) {
  const acquired = await backend.acquire({ key: "k", ttlMs: 1000 });
  return hasFence(acquired) ? acquired.fence : undefined;
}
fenceOf satisfies (backend: LockBackend<RedisCapabilities>) => Promise<string | undefined>;

declare const redis: LockBackend<RedisCapabilities>;
const held = await redis.acquire({ key: "k", ttlMs: 1000 });
if (held.ok) held.fence satisfies string;

type NoFences = { supportsFencing: false; timeAuthority: "client" };
declare const plain: CustomLockBackend<NoFences>;
const unfenced = await acquireHandle(plain, { key: "k", ttlMs: 1000 });
if (unfenced.ok) {
  // @ts-expect-error this backend has no fences
  unfenced.fence;
  if (hasFence(unfenced)) unfenced.fence satisfies string;
  (await unfenced.release()).ok satisfies boolean;
}

declare const any: LockBackend<BackendCapabilities>;
const unknown = await any.acquire({ key: "k", ttlMs: 1000 });
// @ts-expect-error it may have none
if (unknown.ok) unknown.fence;
if (hasFence(unknown)) unknown.fence satisfies string;

await lock(memory, ({ fence }) => fence satisfies string, { key: "k" });
// @ts-expect-error undefined where the backend has no fences
await lock(plain, ({ fence }) => fence satisfies string, { key: "k" });
