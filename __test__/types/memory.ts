// The memory backend: options first or second.

import { createLock, createMemoryBackend } from "syncguard/memory";

export const backends = [
  createMemoryBackend(),
  createMemoryBackend({ disposeTimeoutMs: 100, clock: "javascript" }),
  createMemoryBackend(undefined, { clock: "system", operationTimeoutMs: 1_000 }),
  createMemoryBackend("memory:", {
    onReleaseError: (error, { lockId, key }) => [error, lockId, key],
  }),
];
export const kind: "memory" = backends[0].capabilities.backend;
export const authority: "server" = backends[0].capabilities.timeAuthority;
export const lock = createLock({ clock: "javascript" });
export const locked: Promise<string> = lock(({ fence }) => fence, { key: "k" });
export const closed: Promise<void> = lock.close();

// @ts-expect-error a number is wanted
createMemoryBackend({ disposeTimeoutMs: "100" });
// @ts-expect-error there is no such clock
createMemoryBackend({ clock: "sundial" });
// @ts-expect-error there is no such option
createMemoryBackend({ keyPrefix: "x" });
