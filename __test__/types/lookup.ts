// lookup() takes a key or a lockId: both, or neither, does not compile.

import { getByKey, getByKeyRaw, lookupDebug } from "syncguard";
import { createMemoryBackend } from "syncguard/memory";

const backend = createMemoryBackend();

await backend.lookup({ key: "k" });
await backend.lookup({ lockId: "id" });
await backend.lookup({ key: "k", signal: AbortSignal.timeout(1000) });
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
