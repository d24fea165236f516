// syncguard/common: lock() and all helpers, also those for writing a backend.

export { delay, mergeAcquisitionConfig, mergeBackendConfig } from "./base/config.js";
export {
  BACKEND_DEFAULTS,
  BACKEND_LIMITS,
  FAILURE_REASON,
  FENCE_THRESHOLDS,
  LOCK_DEFAULTS,
  MAX_KEY_LENGTH_BYTES,
  RESERVE_BYTES,
  TIME_TOLERANCE_MS,
} from "./base/constants.js";
export {
  mapBackendObservation,
  mapFirestoreConditions,
  mapRedisScriptResult,
  mapToMutationResult,
} from "./base/conditions.js";
export { LockError } from "./base/errors.js";
export { formatFence, hasFence, logFenceWarning } from "./base/fence.js";
export { createAutoLock } from "./lock/lock.js";
export { hold, lead, lock, tryHold, tryLock } from "./targets/default.js";
export { diagnose, forceRelease, listLocks } from "./lock/look.js";
export { acquireHandle, createDisposableHandle, decorateAcquireResult } from "./base/handle.js";
export {
  generateLockId,
  hashKey,
  makeStorageKey,
  normalizeAndValidateKey,
  validateLockId,
} from "./native/keys.js";
export { getById, getByIdRaw, getByKey, getByKeyRaw, lookupDebug, owns } from "./lock/lookup.js";
export { attachRawData, sanitizeLockInfo } from "./native/results.js";
export { checkAborted } from "./base/signal.js";
export { withTelemetry } from "./lock/telemetry.js";
export { calculateRedisServerTimeMs, isLive } from "./base/time.js";
