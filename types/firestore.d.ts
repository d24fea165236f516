// syncguard/firestore: locks in Firestore.

import type { ConnectionOptions, FencingCapabilities, ManagedLockBackend } from "./backend.js";
import type { ManagedLock } from "./lock.js";
import type { Fence } from "./results.js";

/** What the Firestore backend can do. Its clock is the client's: keep clocks synchronised. */
export interface FirestoreCapabilities extends FencingCapabilities {
  backend: "firestore";
  timeAuthority: "client";
}

/** Options of the Firestore backend. */
export interface FirestoreBackendOptions extends ConnectionOptions {
  /** Where locks are. Default "locks". */
  collection?: string | undefined;
  /** Where fence counters are; another collection than that of the locks. Default "fence_counters". */
  fenceCollection?: string | undefined;
  /** Let isLocked() remove locks that have long expired. Default false. */
  cleanupInIsLocked?: boolean | undefined;
}

/** The options with their defaults filled in. */
export interface FirestoreConfig extends FirestoreBackendOptions {
  collection: string;
  fenceCollection: string;
  cleanupInIsLocked: boolean;
}

/** What is stored of a lock. */
export interface LockDocument {
  lockId: string;
  expiresAtMs: number;
  acquiredAtMs: number;
  key: string;
  fence: Fence;
}

/** How to reach Firestore. What is left out comes from the environment. */
export interface FirestoreConnectionOptions {
  /** Default: GOOGLE_CLOUD_PROJECT, or the project of the credentials. */
  projectId?: string | undefined;
  /** Default "(default)". */
  databaseId?: string | undefined;
  /** `host:port` of an emulator: no TLS, no credentials. Default: FIRESTORE_EMULATOR_HOST. */
  emulatorHost?: string | undefined;
  /** Another host than firestore.googleapis.com. */
  host?: string | undefined;
  /** The port of `host`. */
  port?: number | undefined;
  /** `false` makes `host` an emulator. */
  ssl?: boolean | undefined;
  /** The content of a credentials file; of a service account, its e-mail address and key will do. */
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
 * Nothing means the environment: GOOGLE_CLOUD_PROJECT, FIRESTORE_EMULATOR_HOST, application default
 * credentials. A URL has the form `firestore://project/database`. An options object may also hold
 * the backend's options.
 */
export type FirestoreTarget =
  | (FirestoreConnectionOptions & FirestoreBackendOptions)
  | FirestoreClient
  | string
  | URL
  | undefined;

/**
 * A backend on a Firestore database. It connects on first use.
 *
 * @example
 * const backend = createFirestoreBackend({ projectId: "app" }, { collection: "app_locks" });
 */
export function createFirestoreBackend(
  target?: FirestoreTarget,
  options?: FirestoreBackendOptions,
): ManagedLockBackend<FirestoreCapabilities>;

/** `lock` on a Firestore database. */
export function createLock(
  target?: FirestoreTarget,
  options?: FirestoreBackendOptions,
): ManagedLock<FirestoreCapabilities>;
