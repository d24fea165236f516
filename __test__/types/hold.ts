// The other forms of lock(), and the lock that they hold.

import { createMemoryBackend } from "syncguard/memory";
import { hold, lead, tryHold, tryLock } from "syncguard";
import type { CustomLockBackend, HeldLock, LockContext, TryLockResult } from "syncguard";

const backend = createMemoryBackend();
type NoFences = { supportsFencing: false; timeAuthority: "client" };
declare const plain: CustomLockBackend<NoFences>;

// tryLock: with the backend first or without one.
const tried = await tryLock(async ({ fence }) => fence, { key: "k" });
tried satisfies TryLockResult<string>;
if (tried.ok) {
  tried.value satisfies string;
} else {
  tried.reason satisfies "locked";
  // @ts-expect-error nothing was run
  tried.value;
}
(await tryLock(backend, () => 1, { key: "k", minHoldMs: 1000 })) satisfies TryLockResult<number>;
// @ts-expect-error no config
await tryLock(() => 1);

// hold: a lock for a scope.
{
  await using held = await hold({ key: "k", autoExtend: true, maxHoldMs: 60_000 });
  held satisfies HeldLock;
  held satisfies LockContext;
  held.lockId satisfies string;
  held.fence satisfies string;
  held.expiresAtMs satisfies number;
  held.signal satisfies AbortSignal;
  held.isHeld() satisfies boolean;
  held.isHeld(1000) satisfies boolean;
  held.throwIfLost() satisfies void;
  for (const extended of [await held.extend(), await held.extend(1000)]) {
    if (extended.ok) extended.expiresAtMs satisfies number;
  }
  (await held.release()).ok satisfies boolean;
  // @ts-expect-error read-only
  held.lockId = "other";
  // @ts-expect-error milliseconds
  held.isHeld("1000");
}
(await hold(backend, { key: "k" })).fence satisfies string;
// @ts-expect-error this backend has no fences
(await hold(plain, { key: "k" })).fence satisfies string;
// @ts-expect-error no key
await hold({});
// @ts-expect-error hold runs nothing
await hold(() => 1, { key: "k" });

// tryHold: or null, which `await using` takes.
{
  await using held = await tryHold({ key: "k" });
  held satisfies HeldLock | null;
  if (held !== null) held.fence satisfies string;
  // @ts-expect-error it may be null
  held.fence;
}
(await tryHold(backend, { key: "k" }))?.isHeld() satisfies boolean | undefined;

// lead: as long as it takes.
const { signal } = new AbortController();
(await lead(async ({ fence, signal }) => [fence, signal.aborted], { key: "k", signal })) satisfies (
  string | boolean
)[];
(await lead(backend, () => "resigned", {
  key: "k",
  ttlMs: 1000,
  acquisition: { maxDelayMs: 1000 },
})) satisfies string;
// @ts-expect-error a leader always keeps its lock alive
await lead(() => {}, { key: "k", autoExtend: false });
// @ts-expect-error it waits as long as it takes
await lead(() => {}, { key: "k", acquisition: { timeoutMs: 1000 } });
