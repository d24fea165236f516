// The helpers for custom backends.

import {
  acquireHandle,
  attachRawData,
  FAILURE_REASON,
  formatFence,
  logFenceWarning,
  mapBackendObservation,
  mapFirestoreConditions,
  mapRedisScriptResult,
  mapToMutationResult,
  mergeAcquisitionConfig,
  mergeBackendConfig,
  sanitizeLockInfo,
} from "syncguard/common";
import type {
  AsyncLock,
  ExtendResult,
  MutationCondition,
  MutationReason,
  MutationResult,
  ReleaseResult,
} from "syncguard/common";
import type { AsyncLock as SameAsyncLock } from "syncguard";
import type { RedisCapabilities } from "syncguard/redis";

mapRedisScriptResult(-2) satisfies MutationCondition;
mapFirestoreConditions({
  documentExists: true,
  ownershipValid: true,
  isLive: false,
}) satisfies MutationCondition;
mapBackendObservation(1) satisfies MutationCondition;
mapBackendObservation({ documentExists: true, ownershipValid: true, isLive: true });
// @ts-expect-error a code is a number
mapRedisScriptResult("1");
// @ts-expect-error all three
mapFirestoreConditions({ documentExists: true });
// @ts-expect-error neither
mapBackendObservation("expired");

"cleaned-up-after-expiry" satisfies MutationCondition;
// @ts-expect-error there is no such condition
"expired" satisfies MutationCondition;
const mutation: MutationResult = mapToMutationResult("observable-expired");
mutation satisfies ReleaseResult;
if (!mutation.ok) mutation.reason satisfies MutationReason;
// @ts-expect-error only of a failure
mutation.reason;
// @ts-expect-error an observation is no condition
mapToMutationResult(1);

({ ok: false, [FAILURE_REASON]: { reason: "expired" } }) satisfies ExtendResult;
FAILURE_REASON satisfies symbol;

// Defaults for what is undefined.
mergeBackendConfig({ ttlMs: undefined }).ttlMs satisfies number;
mergeBackendConfig({ key: "k" }).ttlMs satisfies number;
mergeBackendConfig({ key: "k", ttlMs: undefined }).key satisfies string;
mergeBackendConfig().ttlMs satisfies number;
// @ts-expect-error no such field
mergeBackendConfig({ key: "k" }).lockId;
mergeAcquisitionConfig({ jitter: undefined }).jitter satisfies "equal" | "full" | "none";
mergeAcquisitionConfig().timeoutMs satisfies number;
mergeAcquisitionConfig().maxDelayMs satisfies number | undefined;
// @ts-expect-error there may be none
mergeAcquisitionConfig().signal satisfies AbortSignal;

formatFence(42n) satisfies string;
// @ts-expect-error a fence is made of a number
formatFence("42");
logFenceWarning(90_000_000_000_001, "k");
logFenceWarning("090000000000001");
// @ts-expect-error a fence is no bigint
logFenceWarning(1n);

const raw = { key: "k", lockId: "id", expiresAtMs: 2, acquiredAtMs: 1, fence: "1" };
const info = sanitizeLockInfo(raw, { supportsFencing: true, timeAuthority: "client" } as const);
attachRawData(info, raw).fence satisfies string;
// @ts-expect-error it needs both
attachRawData(info, { key: "k" });

// A lock with its handle, by the same name from both modules.
declare const held: AsyncLock<RedisCapabilities>;
held satisfies SameAsyncLock<RedisCapabilities>;
held.fence satisfies string;
(await held.release()).ok satisfies boolean;
// @ts-expect-error a backend without acquire
await acquireHandle({}, { key: "k", ttlMs: 1 });
