// Backends that people write, and closing ours.

import { decorateAcquireResult, generateLockId, lock, LockError } from "syncguard/common";
import type {
  AcquireResult,
  BackendCapabilities,
  BackendConfig,
  CustomLockBackend,
  DecoratedAcquireResult,
  KeyLookup,
  LockBackend,
  OnReleaseError,
  OwnershipLookup,
} from "syncguard/common";
import { createMemoryBackend } from "syncguard/memory";

interface OwnCapabilities extends BackendCapabilities {
  supportsFencing: true;
  timeAuthority: "client";
}

// In the documented style: plain results, decorated on the way out.
export function createOwnBackend(config: BackendConfig = {}): LockBackend<OwnCapabilities> {
  const backend: LockBackend<OwnCapabilities> = {
    capabilities: { supportsFencing: true, timeAuthority: "client" },
    async acquire(opts) {
      const result = await attempt(opts.key, opts.ttlMs);
      return decorateAcquireResult(
        backend,
        result,
        opts.key,
        config.onReleaseError,
        config.disposeTimeoutMs,
      ) satisfies DecoratedAcquireResult<OwnCapabilities>;
    },
    release: async ({ lockId }) => ({ ok: lockId !== "" }),
    extend: async ({ ttlMs }) => (ttlMs > 0 ? { ok: true, expiresAtMs: ttlMs } : { ok: false }),
    isLocked: async ({ key, signal }) => key !== "" && signal?.aborted !== true,
    lookup: async (opts: KeyLookup | OwnershipLookup) => {
      if (opts.key === undefined) opts.lockId satisfies string;
      return null;
    },
  };
  return backend;
}

async function attempt(key: string, ttlMs: number): Promise<AcquireResult<OwnCapabilities>> {
  if (key === "taken") return { ok: false, reason: "locked" };
  return { ok: true, lockId: generateLockId(), expiresAtMs: ttlMs, fence: "000000000000001" };
}

// A result is plain data.
const result: AcquireResult<OwnCapabilities> = await attempt("k", 1);
// @ts-expect-error it has no methods
result.release;
// @ts-expect-error nor can a scope end it
await using _scoped = result;
// @ts-expect-error a lock of this backend has a fence
({ ok: true, lockId: "id", expiresAtMs: 1 }) satisfies AcquireResult<OwnCapabilities>;

// Without handles, and with a watch.
export const watched: CustomLockBackend<OwnCapabilities> = {
  ...createOwnBackend(),
  acquire: async ({ key, ttlMs }) => attempt(key, ttlMs),
  watch: async ({ key, signal }) => {
    key satisfies string;
    signal satisfies AbortSignal;
  },
};
(await lock(watched, ({ fence }) => fence, { key: "k" })) satisfies string;
// @ts-expect-error a watch tells nothing but that it is time
({ ...watched, watch: async () => true }) satisfies CustomLockBackend<OwnCapabilities>;
// @ts-expect-error lookup is needed
({ ...watched, lookup: undefined }) satisfies CustomLockBackend<OwnCapabilities>;

// What is told of a failed release.
export const onReleaseError: OnReleaseError = (error, { lockId, key, source }) => {
  error satisfies Error;
  source satisfies "disposal";
  return [lockId, key];
};
onReleaseError(new LockError("Internal"), { lockId: "id", key: "k", source: "disposal" });
// @ts-expect-error the source is always told
onReleaseError(new Error(), { lockId: "id", key: "k" });

// Ours can be closed.
{
  await using backend = createMemoryBackend({ onReleaseError, disposeTimeoutMs: 100 });
  backend.close() satisfies Promise<void>;
  backend.close({ timeoutMs: 1000 }) satisfies Promise<void>;
  // @ts-expect-error there is no such option
  backend.close({ timeout: 1000 });
}
