// Handles: await using, taking apart, custom backends.

import { acquireHandle, createDisposableHandle, decorateAcquireResult } from "syncguard/common";
import type { DisposableLockHandle } from "syncguard/common";
import { createMemoryBackend } from "syncguard/memory";

await using backend = createMemoryBackend();

export async function scoped() {
  await using held = await backend.acquire({ key: "k", ttlMs: 1000 });
  if (!held.ok) return held.reason satisfies "locked";
  const extended = await held.extend(1000);
  if (extended.ok) extended.expiresAtMs satisfies number;
  // @ts-expect-error only when it worked
  extended.expiresAtMs;
  const { release, lockId } = held;
  (await release(AbortSignal.timeout(10))).ok satisfies boolean;
  return lockId;
}

await using handle = await acquireHandle(backend, { key: "k", ttlMs: 1000 });
handle.ok satisfies boolean;
decorateAcquireResult(backend, { ok: false, reason: "locked" }, "k").release();
createDisposableHandle(backend, { lockId: "id" }, "k") satisfies DisposableLockHandle;

// @ts-expect-error ttlMs is needed
await backend.acquire({ key: "k" });
// @ts-expect-error so is the lockId
await backend.release({});
