// Lookups, listings and repair: for diagnostics, never as a guard.

import type {
  BackendCapabilities,
  CustomLockBackend,
  KeyLookup,
  ManagedLockBackend,
  OwnershipLookup,
} from "./backend.js";
import type { LockInfo, LockInfoDebug, ReleaseResult } from "./results.js";

/** Options of a lookup. */
export interface LookupOptions {
  /** Cancels the lookup: it rejects at once with a LockError "Aborted". */
  signal?: AbortSignal | undefined;
}

/** Returns whether the lock with this lockId is still held. */
export function owns<C extends BackendCapabilities>(
  backend: Pick<CustomLockBackend<C>, "lookup">,
  lockId: string,
  opts?: LookupOptions,
): Promise<boolean>;

/** Returns what is safe to show of the lock on a key, or `null` if the key is free. */
export function getByKey<C extends BackendCapabilities>(
  backend: Pick<CustomLockBackend<C>, "lookup">,
  key: string,
  opts?: LookupOptions,
): Promise<LockInfo<C> | null>;

/** Returns what is safe to show of the lock with this lockId, or `null` if it is no longer held. */
export function getById<C extends BackendCapabilities>(
  backend: Pick<CustomLockBackend<C>, "lookup">,
  lockId: string,
  opts?: LookupOptions,
): Promise<LockInfo<C> | null>;

/**
 * Like `getByKey`, with the raw key and lockId: for debugging, not for logs. If the backend does not
 * provide the lockId, a note stands in its place.
 */
export function getByKeyRaw<C extends BackendCapabilities>(
  backend: Pick<CustomLockBackend<C>, "lookup">,
  key: string,
  opts?: LookupOptions,
): Promise<LockInfoDebug<C> | null>;

/**
 * Like `getById`, with the raw key and lockId: for debugging, not for logs. If the backend does not
 * provide the key, a note stands in its place.
 */
export function getByIdRaw<C extends BackendCapabilities>(
  backend: Pick<CustomLockBackend<C>, "lookup">,
  lockId: string,
  opts?: LookupOptions,
): Promise<LockInfoDebug<C> | null>;

/** Calls `getByKeyRaw` or `getByIdRaw`, depending on the query. */
export function lookupDebug<C extends BackendCapabilities>(
  backend: Pick<CustomLockBackend<C>, "lookup">,
  query: KeyLookup | OwnershipLookup,
): Promise<LockInfoDebug<C> | null>;

/** Options of `listLocks()`. */
export interface ListLocksOptions {
  /** How many locks to list at most. Default: all. */
  limit?: number | undefined;
  /** Whether to include the raw keys and lockIds: for debugging, not for logs. Default false. */
  raw?: boolean | undefined;
  /** Cancels the listing: it throws a LockError "Aborted". */
  signal?: AbortSignal | undefined;
}

/**
 * Lists the live locks of a backend's prefix, tables or collection. It only reads, page by page, and
 * never blocks the store. Locks that change meanwhile may or may not be listed.
 *
 * @example
 * for await (const { keyHash, expiresAtMs } of listLocks(backend, { limit: 100 })) {
 *   console.log(keyHash, new Date(expiresAtMs));
 * }
 */
export function listLocks<C extends BackendCapabilities>(
  backend: ManagedLockBackend<C>,
  options: ListLocksOptions & { raw: true },
): AsyncIterableIterator<LockInfoDebug<C>>;
export function listLocks<C extends BackendCapabilities>(
  backend: ManagedLockBackend<C>,
  options?: ListLocksOptions,
): AsyncIterableIterator<LockInfo<C>>;

/**
 * Releases the lock on a key, whoever holds it. The holder is notified as of any lost lock. Returns
 * `ok: false` if the key was not locked.
 *
 * @example
 * await forceRelease(backend, { key: "report" });
 */
export function forceRelease<C extends BackendCapabilities>(
  backend: ManagedLockBackend<C>,
  opts: Readonly<{ key: string; signal?: AbortSignal | undefined }>,
): Promise<ReleaseResult>;

/** One fact about a store. */
export interface Finding {
  /** What it is about, such as "persistence". */
  name: string;
  /** What was found, in words. */
  value: string;
  /** "warning": an avoidable risk. "error": locks do not work, or do not exclude each other. */
  verdict: "ok" | "warning" | "error";
  /** What it means, or what to do. */
  advice?: string | undefined;
}

/**
 * Checks whether the store is set up for locks: version, persistence, eviction, replication, schema
 * and privileges, file system, clock, as far as they apply. `syncguard doctor` prints the same.
 *
 * @example
 * for (const { name, value, verdict } of await diagnose(backend)) console.log(verdict, name, value);
 */
export function diagnose<C extends BackendCapabilities>(
  backend: ManagedLockBackend<C>,
  options?: LookupOptions,
): Promise<Finding[]>;
