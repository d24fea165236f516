// lookup() takes a key or a lockId: both, or neither, does not compile.

import { forceRelease, getById, getByIdRaw, getByKey, getByKeyRaw } from "syncguard";
import { diagnose, listLocks, lookupDebug, owns } from "syncguard";
import type { CustomLockBackend, KeyLookup, OwnershipLookup } from "syncguard";
import { createMemoryBackend } from "syncguard/memory";

const backend = createMemoryBackend();

await backend.lookup({ key: "k" });
await backend.lookup({ lockId: "id" });
await backend.lookup({ key: "k", signal: AbortSignal.timeout(1000) });
declare const either: KeyLookup | OwnershipLookup;
await backend.lookup(either);
// @ts-expect-error both
await backend.lookup({ key: "k", lockId: "id" });
// @ts-expect-error neither
await backend.lookup({});
// @ts-expect-error nothing at all
await backend.lookup();
// @ts-expect-error a key is a string
await backend.lookup({ key: 1 });

await lookupDebug(backend, { lockId: "id" });
// @ts-expect-error both
await lookupDebug(backend, { key: "k", lockId: "id" });
// @ts-expect-error neither
await lookupDebug(backend, {});

const info = await backend.lookup({ key: "k" });
if (info) {
  info.fence satisfies string;
  info.expiresAtMs satisfies number;
  info.holderLabel satisfies string | undefined;
  // @ts-expect-error lookup gives hashes only
  info.key;
}
(await getByKey(backend, "k"))?.fence satisfies string | undefined;
const raw = await getByKeyRaw(backend, "k");
if (raw) {
  raw.key satisfies string;
  raw.lockId satisfies string;
  raw.fence satisfies string;
}
(await getById(backend, "id", { signal: AbortSignal.timeout(10) }))?.fence satisfies
  string | undefined;
(await getByIdRaw(backend, "id"))?.key satisfies string | undefined;
(await owns(backend, "id")) satisfies boolean;

// Looking around.
for await (const { keyHash, fence, ...rest } of listLocks(backend, { limit: 10 })) {
  [keyHash, fence] satisfies string[];
  // @ts-expect-error hashes only
  rest.key;
}
for await (const { key, lockId } of listLocks(backend, { raw: true })) {
  [key, lockId] satisfies string[];
}
listLocks(backend).return?.() satisfies Promise<unknown> | undefined;
(await forceRelease(backend, { key: "k" })).ok satisfies boolean;
// @ts-expect-error a lock is taken away by its key
await forceRelease(backend, { lockId: "id" });
for (const { name, verdict, advice } of await diagnose(backend)) {
  name satisfies string;
  verdict satisfies "ok" | "warning" | "error";
  advice satisfies string | undefined;
}
backend.capabilities.waitsBy satisfies "notification" | "polling" | undefined;
// @ts-expect-error how many
listLocks(backend, { limit: "10" });

declare const own: CustomLockBackend;
// @ts-expect-error a hand-made backend cannot list
listLocks(own);
