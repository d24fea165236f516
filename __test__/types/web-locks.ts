// syncguard/web-locks: the types of request() and query().

import { createRedisBackend } from "syncguard/redis";
import { createLockManager, type Lock, type LockInfo, type LockManager } from "syncguard/web-locks";

const locks = createLockManager("memory:");
createLockManager() satisfies LockManager;
createLockManager(createRedisBackend(), { ttlMs: 5_000 }) satisfies LockManager;
// @ts-expect-error: an option of lock()
createLockManager("memory:", { key: "k" });

const count: number = await locks.request("n", async (lock) => lock.name.length);
const mode: "shared" | "exclusive" = await locks.request(
  "n",
  { mode: "shared" },
  (one) => one.mode,
);
// The callback gets null only with ifAvailable.
await locks.request("n", { ifAvailable: true }, (lock: Lock | null) => lock?.name);
// @ts-expect-error: the lock may be null
await locks.request("n", { ifAvailable: true }, (lock) => lock.name);
await locks.request("n", { signal: AbortSignal.timeout(1_000) }, ({ name }) => name);
// @ts-expect-error: no such mode
await locks.request("n", { mode: "read" }, () => {});

const { held, pending } = await locks.query();
const infos: LockInfo[] = [...held, ...pending];
await locks.close({ timeoutMs: 100 });
await using closing = createLockManager("memory:");

export { closing, count, infos, mode };
