// syncguard/common: all helpers, also those for writing a backend.

export { delay, mergeAcquisitionConfig, mergeBackendConfig } from "./config.js";
export {
  BACKEND_DEFAULTS,
  BACKEND_LIMITS,
  FAILURE_REASON,
  FENCE_THRESHOLDS,
  LOCK_DEFAULTS,
  MAX_KEY_LENGTH_BYTES,
  RESERVE_BYTES,
  TIME_TOLERANCE_MS,
} from "./constants.js";
export { LockError } from "./errors.js";
export { formatFence, hasFence, logFenceWarning } from "./fence.js";
export { acquireHandle, createDisposableHandle, decorateAcquireResult } from "./handle.js";
export {
  generateLockId,
  hashKey,
  makeStorageKey,
  normalizeAndValidateKey,
  validateLockId,
} from "./keys.js";
export { getById, getByIdRaw, getByKey, getByKeyRaw, lookupDebug, owns } from "./lookup.js";
export {
  attachRawData,
  mapBackendObservation,
  mapFirestoreConditions,
  mapRedisScriptResult,
  mapToMutationResult,
  sanitizeLockInfo,
} from "./results.js";
export { createAutoLock } from "./run-lock.js";
export { checkAborted } from "./signal.js";
export { withTelemetry } from "./telemetry.js";
export { calculateRedisServerTimeMs, isLive } from "./time.js";
