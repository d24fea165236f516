// lock() with a backend and without, and what fn receives.

import { createAutoLock, createLock, lock, LockError } from "syncguard";
import { lock as sameLock } from "syncguard/common";
import type { AutoLock, CustomLockBackend, LockConfig } from "syncguard";
import { createLock as createMemoryLock, createMemoryBackend } from "syncguard/memory";
import type { MemoryCapabilities } from "syncguard/memory";

const backend = createMemoryBackend();

(await lock(() => 1, { key: "k" })) satisfies number;
(await lock(async () => "text", { key: "k" })) satisfies string;
(await lock(backend, async () => "text", { key: "k" })) satisfies string;
(await createAutoLock(backend)(() => true, { key: "k" })) satisfies boolean;
(await createMemoryLock()(() => true, { key: "k" })) satisfies boolean;
(await createLock("memory:")(({ fence }) => fence, { key: "k" })) satisfies string;
createMemoryLock() satisfies AutoLock<MemoryCapabilities>;
sameLock satisfies typeof lock;
// @ts-expect-error nothing of its own to close
createAutoLock(backend).close;

await lock(
  backend,
  (context) => {
    context.lockId satisfies string;
    context.expiresAtMs satisfies number;
    context.signal satisfies AbortSignal;
    context.isHeld() satisfies boolean;
    context.isHeld(1000) satisfies boolean;
    context.throwIfLost() satisfies void;
    context.extend() satisfies Promise<{ ok: boolean }>;
    context.extend(1000) satisfies Promise<{ ok: boolean }>;
    // @ts-expect-error read-only
    context.lockId = "other";
    // @ts-expect-error lock() releases
    context.release;
  },
  {
    key: "k",
    ttlMs: 1000,
    autoExtend: true,
    maxHoldMs: 60_000,
    minHoldMs: 1000,
    throwIfLost: true,
    name: "reports",
    signal: AbortSignal.timeout(1000),
    acquisition: { maxRetries: Infinity, backoff: "fixed", jitter: "none", maxDelayMs: 10 },
    onReleaseError: (error, { source }) => [error satisfies Error, source satisfies "disposal"],
  },
);

// @ts-expect-error no key
await lock(() => 1, {});
// @ts-expect-error no config
await lock(() => 1);
// @ts-expect-error no such back-off
({ key: "k", acquisition: { backoff: "linear" } }) satisfies LockConfig;
// @ts-expect-error a near miss
({ key: "k", ttl: 1000 }) satisfies LockConfig;
// @ts-expect-error another near miss
({ key: "k", acquisition: { timeout: 1000 } }) satisfies LockConfig;
// @ts-expect-error not a backend
await lock({}, () => 1, { key: "k" });

// A backend without handles is enough.
const own: CustomLockBackend<{ supportsFencing: true; timeAuthority: "client" }> = {
  capabilities: { supportsFencing: true, timeAuthority: "client" },
  acquire: async () => ({ ok: true, lockId: "id", expiresAtMs: 1, fence: "000000000000001" }),
  release: async () => ({ ok: true }),
  extend: async ({ ttlMs }) => ({ ok: true, expiresAtMs: ttlMs }),
  isLocked: async () => true,
  lookup: async (opts) => {
    if (opts.key === undefined) opts.lockId satisfies string;
    return null;
  },
};
(await lock(own, ({ fence }) => fence, { key: "k" })) satisfies string;

const error = new LockError("LockLost", "gone", { key: "k" });
error.code satisfies string;
error.context?.key satisfies string | undefined;
// @ts-expect-error no such code
new LockError("Oops");

// What createLock() returns has the other forms.
{
  await using bound = createMemoryLock();
  (await bound(({ fence }) => fence.length, { key: "k" })) satisfies number;
  const tried = await bound.tryLock(({ fence }) => fence, { key: "k" });
  if (tried.ok) tried.value satisfies string;
  await using held = await bound.hold({ key: "k", autoExtend: true });
  held.fence satisfies string;
  await using perhaps = await bound.tryHold({ key: "k" });
  perhaps?.fence satisfies string | undefined;
  // @ts-expect-error it may be null
  perhaps.fence;
  (await bound.lead(({ signal }) => signal.aborted, { key: "k" })) satisfies boolean;
  // @ts-expect-error a leader always keeps its lock alive
  bound.lead(() => {}, { key: "k", autoExtend: true });
  // @ts-expect-error it is bound already
  bound.hold(own, { key: "k" });
  const { hold: destructured } = bound;
  destructured({ key: "k" }) satisfies Promise<{ release: () => Promise<{ ok: boolean }> }>;
}
