// Sharing a key, and several keys: where `slot`, `fences` and `fence` exist.

import { createLock, hold, lead, listLocks, lock, lookupDebug, tryHold, tryLock } from "syncguard";
import type {
  AcquireOp,
  CustomLockBackend,
  HeldLock,
  HeldLocks,
  HeldSharedLock,
  LockConfig,
  LockContext,
  LockEvent,
  LockTrace,
  SeveralLocksConfig,
  SeveralLocksContext,
  SharedLockConfig,
  SharedLockContext,
  SharingOptions,
} from "syncguard";
import { createMemoryBackend } from "syncguard/memory";

const backend = createMemoryBackend();
type NoFences = { supportsFencing: false; timeAuthority: "client" };
declare const plain: CustomLockBackend<NoFences>;

// With a limit or a mode there is a slot, in each form.
(await lock(({ slot }) => slot, { key: "k", concurrency: 5 })) satisfies number;
(await lock(({ slot }) => slot, { key: "k", mode: "shared" })) satisfies number;
(await lock(backend, ({ slot, fence }) => [slot, fence] as const, {
  ...{ key: "k", concurrency: 2, ttlMs: 1000, name: "api" },
})) satisfies readonly [number, string];
const tried = await tryLock(({ slot }) => slot, { key: "k", mode: "shared", concurrency: 3 });
if (tried.ok) tried.value satisfies number;
{
  await using held = await hold(backend, { key: "k", concurrency: 2 });
  held satisfies HeldSharedLock;
  held satisfies HeldLock;
  held.slot satisfies number;
  // @ts-expect-error read-only
  held.slot = 1;
  await using perhaps = await tryHold({ key: "k", mode: "shared" });
  perhaps?.slot satisfies number | undefined;
  // @ts-expect-error it may be null
  perhaps.slot;
}
await lock((context) => context satisfies SharedLockContext, { key: "k", concurrency: 1 });

// Without them there may be none.
await lock(({ slot }) => slot satisfies number | undefined, { key: "k" });
// @ts-expect-error an exclusive lock has no slot
(await lock(({ slot }) => slot, { key: "k" })) satisfies number;
// @ts-expect-error nor has the writer
(await lock(({ slot }) => slot, { key: "k", mode: "exclusive" })) satisfies number;
declare const perhapsLimited: SharingOptions;
await lock(({ slot }) => slot satisfies number | undefined, { key: "k", ...perhapsLimited });
(await backend.acquire({ key: "k", ttlMs: 1000, concurrency: 2 })).ok satisfies boolean;
const acquired = await backend.acquire({ key: "k", ttlMs: 1000, mode: "shared" });
if (acquired.ok) acquired.slot satisfies number | undefined;

// What cannot be meant.
// @ts-expect-error no such mode
await lock(() => {}, { key: "k", mode: "read" });
// @ts-expect-error a number
({ key: "k", ttlMs: 1000, concurrency: "5" }) satisfies AcquireOp;
// @ts-expect-error a near miss
({ key: "k", concurency: 5 }) satisfies LockConfig;
// @ts-expect-error neither a limit nor a mode
({ key: "k" }) satisfies SharedLockConfig;

// Several keys: a fence and a lockId for each, and none for all of them.
await lock(
  (context) => {
    context satisfies SeveralLocksContext;
    context.fences["account:1"] satisfies string;
    context.lockIds["account:1"] satisfies string;
    context.slots?.["account:1"] satisfies number | undefined;
    context.expiresAtMs satisfies number;
    context.isHeld(1000) satisfies boolean;
    context.signal satisfies AbortSignal;
    context.extend(1000) satisfies Promise<{ ok: boolean }>;
    // @ts-expect-error each key has a fence of its own
    context.fence;
    // @ts-expect-error each key has a lock of its own
    context.lockId;
    // @ts-expect-error each key has a slot of its own
    context.slot;
    // @ts-expect-error lock() releases
    context.release;
    // @ts-expect-error read-only
    context.fences["account:1"] = "000000000000001";
  },
  { keys: ["account:1", "account:2"], concurrency: 2 },
);
{
  await using held = await hold(backend, { keys: ["a", "b"] as const });
  held satisfies HeldLocks;
  (await held.release()).ok satisfies boolean;
  // @ts-expect-error not one lock
  held satisfies HeldLock;
  await using perhaps = await tryHold({ keys: ["a"] });
  perhaps?.fences satisfies Readonly<Record<string, string>> | undefined;
  const result = await tryLock(backend, ({ fences }) => fences, { keys: ["a"] });
  if (result.ok) result.value satisfies Readonly<Record<string, string>>;
}
(await hold(plain, { keys: ["a"] })).fences satisfies Readonly<Record<string, string | undefined>>;
// @ts-expect-error this backend has no fences
(await hold(plain, { keys: ["a"] })).fences satisfies Readonly<Record<string, string>>;

// `key` and `keys` exclude each other.
// @ts-expect-error both
await lock(() => {}, { key: "a", keys: ["b"] });
// @ts-expect-error both
({ key: "a", keys: ["b"] }) satisfies LockConfig;
// @ts-expect-error both
({ key: "a", keys: ["b"] }) satisfies SeveralLocksConfig;
// @ts-expect-error neither
await lock(() => {}, { concurrency: 2 });
// @ts-expect-error several are a list
await lock(() => {}, { keys: "a" });
// @ts-expect-error a leader is elected for one key
await lead(() => {}, { keys: ["a", "b"] });
// @ts-expect-error a single attempt is for one key
await backend.acquire({ keys: ["a", "b"], ttlMs: 1000 });

// The functions of createLock() alike.
{
  await using bound = createLock("memory:");
  (await bound(({ slot }) => slot, { key: "k", concurrency: 2 })) satisfies number;
  (await bound(({ fences }) => fences.a, { keys: ["a"] })) satisfies string;
  (await bound.hold({ key: "k", mode: "shared" })).slot satisfies number;
  (await bound.tryHold({ keys: ["a"] }))?.fences satisfies object | undefined;
  const shared = await bound.tryLock(({ slot }) => slot, { key: "k", concurrency: 2 });
  if (shared.ok) shared.value satisfies number;
}

// A function that works under any lock of one key also works under a shared one.
const work = async ({ fence }: LockContext) => fence;
(await lock(work, { key: "k", concurrency: 2 })) satisfies string;
(await lock(work, { key: "k" })) satisfies string;

// Looking around, and telemetry.
for await (const { mode, slot } of listLocks(backend)) {
  mode satisfies "exclusive" | "shared" | undefined;
  slot satisfies number | undefined;
}
(await lookupDebug(backend, { key: "k" }))?.holders satisfies number | undefined;
declare const event: LockEvent;
declare const trace: LockTrace;
[event.mode, trace.mode] satisfies ("shared" | undefined)[];
[event.slot, trace.slot] satisfies (number | undefined)[];
backend.capabilities.supportsSharing satisfies boolean | undefined;
