// syncguard/firestore: locks in Firestore.

import type { ConnectionOptions, FencingCapabilities, ManagedLockBackend } from "./backend.js";
import type { ManagedLock } from "./lock.js";
import type { Fence } from "./results.js";

/** What the Firestore backend can do. It uses the clients' clocks: keep them synchronised. */
export interface FirestoreCapabilities extends FencingCapabilities {
  backend: "firestore";
  timeAuthority: "client";
}

/** Options of the Firestore backend. */
export interface FirestoreBackendOptions extends ConnectionOptions {
  /** The collection of locks. Default "locks". */
  collection?: string | undefined;
  /** The collection of fence counters, not the same as `collection`. Default "fence_counters". */
  fenceCollection?: string | undefined;
  /** Whether isLocked() also removes locks that expired long ago. Default false. */
  cleanupInIsLocked?: boolean | undefined;
}

/** The options with their defaults filled in. */
export interface FirestoreConfig extends FirestoreBackendOptions {
  collection: string;
  fenceCollection: string;
  cleanupInIsLocked: boolean;
}

/** What Firestore stores for a lock. */
export interface LockDocument {
  lockId: string;
  expiresAtMs: number;
  acquiredAtMs: number;
  key: string;
  fence: Fence;
}

/** How to reach Firestore. Defaults come from the environment. */
export interface FirestoreConnectionOptions {
  /** Default: GOOGLE_CLOUD_PROJECT, or the project of the credentials. */
  projectId?: string | undefined;
  /** Default "(default)". */
  databaseId?: string | undefined;
  /** The `host:port` of an emulator, reached without TLS and credentials. Default: FIRESTORE_EMULATOR_HOST. */
  emulatorHost?: string | undefined;
  /** Default "firestore.googleapis.com". */
  host?: string | undefined;
  /** The port of `host`. */
  port?: number | undefined;
  /** `false` treats `host` as an emulator. Default true. */
  ssl?: boolean | undefined;
  /** The content of a credentials file. For a service account, its e-mail address and key are enough. */
  credentials?:
    { client_email?: string; private_key?: string; [field: string]: unknown } | undefined;
  /** The path of a credentials file. */
  keyFilename?: string | undefined;
}

/** A `Firestore` of @google-cloud/firestore: its settings are read. */
export interface FirestoreClient {
  collection(path: string): any;
  runTransaction(...args: any[]): any;
}

/**
 * Where the database is. Without a target: the environment variables GOOGLE_CLOUD_PROJECT and
 * FIRESTORE_EMULATOR_HOST, and application default credentials. A URL has the form
 * `firestore://project/database`. An options object can also hold the backend's options. `undefined`
 * compiles, but the call then throws "InvalidArgument", so that a missing variable does not silently
 * lead to another project.
 */
export type FirestoreTarget =
  | (FirestoreConnectionOptions & FirestoreBackendOptions)
  | FirestoreClient
  | string
  | URL
  | undefined;

/**
 * Creates a backend on a Firestore database. It connects on first use.
 *
 * @example
 * const backend = createFirestoreBackend({ projectId: "app" }, { collection: "app_locks" });
 */
export function createFirestoreBackend(
  target?: FirestoreTarget,
  options?: FirestoreBackendOptions,
): ManagedLockBackend<FirestoreCapabilities>;

/** Returns `lock`, bound to a backend on a Firestore database. */
export function createLock(
  target?: FirestoreTarget,
  options?: FirestoreBackendOptions,
): ManagedLock<FirestoreCapabilities>;
