// lock() in its forms, and what fn receives.

import {
  createAutoLock,
  createBackend,
  createLock,
  lock,
  LockError,
  withTelemetry,
} from "syncguard";
import type { CustomLockBackend, LockConfig, ManagedLockBackend } from "syncguard";
import { createLock as createMemoryLock, createMemoryBackend } from "syncguard/memory";
import type { MemoryCapabilities } from "syncguard/memory";

const backend = createMemoryBackend({ disposeTimeoutMs: 100 });
createMemoryBackend(undefined, {
  onReleaseError: (error, { lockId, key }) => [error, lockId, key],
});
// @ts-expect-error a number is wanted
createMemoryBackend({ disposeTimeoutMs: "100" });

(await lock(() => 1, { key: "k" })) satisfies number;
(await lock(async () => "text", { key: "k" })) satisfies string;
(await lock(backend, async () => "text", { key: "k" })) satisfies string;
(await createAutoLock(backend)(() => true, { key: "k" })) satisfies boolean;
(await createMemoryLock()(() => true, { key: "k" })) satisfies boolean;
(await createLock("memory:")(({ fence }) => fence, { key: "k" })) satisfies string;
createBackend("memory:").close() satisfies Promise<void>;

await lock(
  backend,
  (context) => {
    context.lockId satisfies string;
    context.expiresAtMs satisfies number;
    context.signal satisfies AbortSignal;
    // @ts-expect-error read-only
    context.lockId = "other";
  },
  {
    key: "k",
    ttlMs: 1000,
    autoExtend: true,
    signal: AbortSignal.timeout(1000),
    acquisition: { maxRetries: Infinity, backoff: "fixed", jitter: "none", timeoutMs: 10 },
    onReleaseError: (error) => error satisfies Error,
  },
);

// @ts-expect-error no key
await lock(() => 1, {});
// @ts-expect-error no config
await lock(() => 1);
// @ts-expect-error no such back-off
({ key: "k", acquisition: { backoff: "linear" } }) satisfies LockConfig;
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

// Telemetry keeps what the backend is.
const observed = withTelemetry(backend, { onEvent: (event) => event.reason });
observed satisfies ManagedLockBackend<MemoryCapabilities>;
// @ts-expect-error a hand-made backend has nothing to close
withTelemetry(own, { onEvent: () => {} }).close;
// @ts-expect-error onEvent is needed
withTelemetry(backend, {});

const error = new LockError("LockLost", "gone", { key: "k" });
error.code satisfies string;
error.context?.key satisfies string | undefined;
// @ts-expect-error no such code
new LockError("Oops");
