// Handles: await using, taking apart, custom backends.

import { acquireHandle, createDisposableHandle, decorateAcquireResult } from "syncguard/common";
import type { AcquireOk, AsyncLock, DecoratedAcquireResult, LockBackend } from "syncguard/common";
import { createMemoryBackend } from "syncguard/memory";

await using backend = createMemoryBackend();

export async function scoped() {
  await using held = await backend.acquire({ key: "k", ttlMs: 1000 });
  if (!held.ok) return held.reason satisfies "locked";
  const extended = await held.extend(1000);
  if (extended.ok) extended.expiresAtMs satisfies number;
  // @ts-expect-error only when it worked
  extended.expiresAtMs;
  held.signal satisfies AbortSignal;
  held.isHeld() satisfies boolean;
  held.isHeld(1000) satisfies boolean;
  held.throwIfLost() satisfies void;
  const { release, lockId } = held;
  (await release(AbortSignal.timeout(10))).ok satisfies boolean;
  return lockId;
}

await using handle = await acquireHandle(backend, { key: "k", ttlMs: 1000 });
if (handle.ok) handle.isHeld() satisfies boolean;
// @ts-expect-error nothing was acquired
if (!handle.ok) handle.isHeld();
decorateAcquireResult(backend, { ok: false, reason: "locked" }, "k").release();

// What a backend's acquire returns; only acquire is needed of one that returns handles.
type Fencing = { supportsFencing: true; timeAuthority: "client" };
declare const decorating: Pick<LockBackend<Fencing>, "acquire">;
const decorated = await acquireHandle(decorating, { key: "k", ttlMs: 1000 });
decorated satisfies DecoratedAcquireResult<Fencing>;
if (decorated.ok) {
  decorated satisfies AsyncLock<Fencing>;
  decorated.fence satisfies string;
  // @ts-expect-error that is of our own backends only
  decorated.isHeld;
}

// The data stays with the methods.
declare const acquired: AcquireOk<Fencing>;
const own = createDisposableHandle(backend, acquired, "k", undefined, 100);
own satisfies AsyncLock<Fencing>;
own.fence satisfies string;
createDisposableHandle(backend, { lockId: "id" }, "k").lockId satisfies string;
// @ts-expect-error a lock has a lockId
createDisposableHandle(backend, {}, "k");

// @ts-expect-error ttlMs is needed
await backend.acquire({ key: "k" });
// @ts-expect-error so is the lockId
await backend.release({});
