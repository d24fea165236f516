// A fencing backend's fence is there without a check; another backend's is not.

import { acquireHandle, hasFence, hold, lock } from "syncguard";
import type {
  AcquireOk,
  AcquireResult,
  AsyncLock,
  AutoLock,
  BackendCapabilities,
  CustomLockBackend,
  DecoratedAcquireResult,
  HeldLock,
  LockBackend,
  LockContext,
  LockInfo,
  LockInfoDebug,
  ManagedAcquireResult,
  ManagedLock,
  ManagedLockBackend,
} from "syncguard";
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

// Without a type argument every type is the one of a backend with fences.
declare const defaults: {
  custom: CustomLockBackend;
  decorating: LockBackend;
  managed: ManagedLockBackend;
  ok: AcquireOk;
  result: AcquireResult;
  scoped: AsyncLock;
  decorated: DecoratedAcquireResult;
  ours: ManagedAcquireResult;
  context: LockContext;
  held: HeldLock;
  info: LockInfo;
  debug: LockInfoDebug;
  bound: AutoLock;
  boundManaged: ManagedLock;
};
const { custom, decorating, managed } = defaults;
for (const backend of [custom, decorating, managed]) {
  const acquired = await backend.acquire({ key: "k", ttlMs: 1000 });
  if (acquired.ok) acquired.fence satisfies string;
  (await backend.lookup({ key: "k" }))?.fence satisfies string | undefined;
  backend.capabilities.supportsFencing satisfies true;
  (await lock(backend, ({ fence }) => fence, { key: "k" })) satisfies string;
  (await hold(backend, { key: "k" })).fence satisfies string;
}
for (const result of [defaults.result, defaults.decorated, defaults.ours]) {
  if (result.ok) result.fence satisfies string;
}
const { ok, scoped, context, info, debug } = defaults;
[ok, scoped, context, defaults.held, info, debug].map(({ fence }) => fence) satisfies string[];
for (const bound of [defaults.bound, defaults.boundManaged]) {
  (await bound(({ fence }) => fence, { key: "k" })) satisfies string;
}

// Every backend of this package is one of these, and a backend without fences is none.
for (const backend of [memory, redis]) backend satisfies LockBackend;
memory satisfies ManagedLockBackend;
// @ts-expect-error it has no fences
plain satisfies CustomLockBackend;
// @ts-expect-error it may have none
any satisfies LockBackend;
