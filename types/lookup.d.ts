// Looking around: for diagnostics and repair, never as a guard for what follows.

import type {
  BackendCapabilities,
  CustomLockBackend,
  KeyLookup,
  ManagedLockBackend,
  OwnershipLookup,
} from "./backend.js";
import type { LockInfo, LockInfoDebug, ReleaseResult } from "./results.js";

/** How to look. */
export interface LookupOptions {
  /** Ends the lookup at once, with a LockError "Aborted". */
  signal?: AbortSignal | undefined;
}

/** Whether this lock is still held. */
export function owns<C extends BackendCapabilities>(
  backend: Pick<CustomLockBackend<C>, "lookup">,
  lockId: string,
  opts?: LookupOptions,
): Promise<boolean>;

/** What may be shown of the lock on a key, or `null`. */
export function getByKey<C extends BackendCapabilities>(
  backend: Pick<CustomLockBackend<C>, "lookup">,
  key: string,
  opts?: LookupOptions,
): Promise<LockInfo<C> | null>;

/** What may be shown of the lock with this lockId, or `null`. */
export function getById<C extends BackendCapabilities>(
  backend: Pick<CustomLockBackend<C>, "lookup">,
  lockId: string,
  opts?: LookupOptions,
): Promise<LockInfo<C> | null>;

/**
 * With the raw key and lockId: for debugging, not for logs. A backend that does not tell them leaves
 * a remark in place of the lockId.
 */
export function getByKeyRaw<C extends BackendCapabilities>(
  backend: Pick<CustomLockBackend<C>, "lookup">,
  key: string,
  opts?: LookupOptions,
): Promise<LockInfoDebug<C> | null>;

/**
 * With the raw key and lockId: for debugging, not for logs. A backend that does not tell them leaves
 * a remark in place of the key.
 */
export function getByIdRaw<C extends BackendCapabilities>(
  backend: Pick<CustomLockBackend<C>, "lookup">,
  lockId: string,
  opts?: LookupOptions,
): Promise<LockInfoDebug<C> | null>;

/** `getByKeyRaw` or `getByIdRaw`, as the query says. */
export function lookupDebug<C extends BackendCapabilities>(
  backend: Pick<CustomLockBackend<C>, "lookup">,
  query: KeyLookup | OwnershipLookup,
): Promise<LockInfoDebug<C> | null>;

/** What to list. */
export interface ListLocksOptions {
  /** The most locks to list. Default: all. */
  limit?: number | undefined;
  /** With the raw keys and lockIds: for debugging, not for logs. Default false. */
  raw?: boolean | undefined;
  /** Ends the listing, with a LockError "Aborted". */
  signal?: AbortSignal | undefined;
}

/**
 * The live locks of a backend's prefix, tables or collection. Reads only, page by page, and never
 * blocks the store; what changes meanwhile may or may not be seen.
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
 * Takes a lock away from whoever holds it, who learns of it as of any loss. `ok: false`: the key was
 * not locked.
 *
 * @example
 * await forceRelease(backend, { key: "report" });
 */
export function forceRelease<C extends BackendCapabilities>(
  backend: ManagedLockBackend<C>,
  opts: Readonly<{ key: string; signal?: AbortSignal | undefined }>,
): Promise<ReleaseResult>;

/** One thing that there is to know of a store. */
export interface Finding {
  /** What it is about, such as "persistence". */
  name: string;
  /** What was found, for a person. */
  value: string;
  /** "warning": something can go wrong that need not. "error": locks do not work, or exclude nobody. */
  verdict: "ok" | "warning" | "error";
  /** What it means, or what to do. */
  advice?: string | undefined;
}

/**
 * What the store says of itself, judged by what locks need: version, persistence, eviction,
 * replication, schema and rights, file system, clock, as far as it has them. For a person: `syncguard
 * doctor` prints it.
 *
 * @example
 * for (const { name, value, verdict } of await diagnose(backend)) console.log(verdict, name, value);
 */
export function diagnose<C extends BackendCapabilities>(
  backend: ManagedLockBackend<C>,
  options?: LookupOptions,
): Promise<Finding[]>;
