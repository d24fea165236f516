/// <reference lib="esnext.disposable" />
// syncguard: everything of syncguard/common, and backends by URL.

import type * as common from "./types/common.js";

export * from "./types/common.js";
export { createBackend, createLock } from "./types/open.js";

// Helpers that only authors of backends need. They stay here for programs that import them from here,
// but are deprecated so that editors list them last. Each is declared again, because editors ignore a
// tag on a re-export and look at the original declaration.

/** @deprecated Import it from "syncguard/common". */
export const BACKEND_DEFAULTS: typeof common.BACKEND_DEFAULTS;
/** @deprecated Import it from "syncguard/common". */
export const BACKEND_LIMITS: typeof common.BACKEND_LIMITS;
/** @deprecated Import it from "syncguard/common". */
export const FAILURE_REASON: typeof common.FAILURE_REASON;
/** @deprecated Import it from "syncguard/common". */
export const FENCE_THRESHOLDS: typeof common.FENCE_THRESHOLDS;
/** @deprecated Import it from "syncguard/common". */
export const LOCK_DEFAULTS: typeof common.LOCK_DEFAULTS;
/** @deprecated Import it from "syncguard/common". */
export const MAX_KEY_LENGTH_BYTES: typeof common.MAX_KEY_LENGTH_BYTES;
/** @deprecated Import it from "syncguard/common". */
export const RESERVE_BYTES: typeof common.RESERVE_BYTES;
/** @deprecated Import it from "syncguard/common". */
export const TIME_TOLERANCE_MS: typeof common.TIME_TOLERANCE_MS;
/** @deprecated Import it from "syncguard/common". */
export const attachRawData: typeof common.attachRawData;
/** @deprecated Import it from "syncguard/common". */
export const calculateRedisServerTimeMs: typeof common.calculateRedisServerTimeMs;
/** @deprecated Import it from "syncguard/common". */
export const checkAborted: typeof common.checkAborted;
/** @deprecated Import it from "syncguard/common". */
export const createDisposableHandle: typeof common.createDisposableHandle;
/** @deprecated Import it from "syncguard/common". */
export const decorateAcquireResult: typeof common.decorateAcquireResult;
/** @deprecated Import it from "syncguard/common". */
export const delay: typeof common.delay;
/** @deprecated Import it from "syncguard/common". */
export const formatFence: typeof common.formatFence;
/** @deprecated Import it from "syncguard/common". */
export const generateLockId: typeof common.generateLockId;
/** @deprecated Import it from "syncguard/common". */
export const isLive: typeof common.isLive;
/** @deprecated Import it from "syncguard/common". */
export const logFenceWarning: typeof common.logFenceWarning;
/** @deprecated Import it from "syncguard/common". */
export const makeStorageKey: typeof common.makeStorageKey;
/** @deprecated Import it from "syncguard/common". */
export const mapBackendObservation: typeof common.mapBackendObservation;
/** @deprecated Import it from "syncguard/common". */
export const mapFirestoreConditions: typeof common.mapFirestoreConditions;
/** @deprecated Import it from "syncguard/common". */
export const mapRedisScriptResult: typeof common.mapRedisScriptResult;
/** @deprecated Import it from "syncguard/common". */
export const mapToMutationResult: typeof common.mapToMutationResult;
/** @deprecated Import it from "syncguard/common". */
export const mergeAcquisitionConfig: typeof common.mergeAcquisitionConfig;
/** @deprecated Import it from "syncguard/common". */
export const mergeBackendConfig: typeof common.mergeBackendConfig;
/** @deprecated Import it from "syncguard/common". */
export const normalizeAndValidateKey: typeof common.normalizeAndValidateKey;
/** @deprecated Import it from "syncguard/common". */
export const sanitizeLockInfo: typeof common.sanitizeLockInfo;
/** @deprecated Import it from "syncguard/common". */
export const validateLockId: typeof common.validateLockId;

/** @deprecated Import it from "syncguard/common". */
export type BackendObservation = common.BackendObservation;
/** @deprecated Import it from "syncguard/common". */
export type FirestoreConditions = common.FirestoreConditions;
/** @deprecated Import it from "syncguard/common". */
export type MutationCondition = common.MutationCondition;
/** @deprecated Import it from "syncguard/common". */
export type MutationFailure = common.MutationFailure;
/** @deprecated Import it from "syncguard/common". */
export type MutationReason = common.MutationReason;
/** @deprecated Import it from "syncguard/common". */
export type MutationResult = common.MutationResult;
/** @deprecated Import it from "syncguard/common". */
export type RawLockInfo = common.RawLockInfo;
