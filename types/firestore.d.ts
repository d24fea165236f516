// syncguard/firestore

import type { AutoLock, FencingCapabilities, ManagedLockBackend } from "../index.js";
import type { ConnectionOptions } from "./options.js";

export interface FirestoreCapabilities extends FencingCapabilities {
  backend: "firestore";
  timeAuthority: "client";
}

export interface FirestoreBackendOptions extends ConnectionOptions {
  /** Default "locks". */
  collection?: string | undefined;
  /** Default "fence_counters". */
  fenceCollection?: string | undefined;
  /** Let isLocked() remove locks that have long expired. Default false. */
  cleanupInIsLocked?: boolean | undefined;
}

export interface FirestoreConnectionOptions {
  projectId?: string | undefined;
  databaseId?: string | undefined;
  /** `host:port` of an emulator: no TLS, no credentials. Default: FIRESTORE_EMULATOR_HOST. */
  emulatorHost?: string | undefined;
  /** Another host than firestore.googleapis.com. */
  host?: string | undefined;
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
 * the backend's options when these are not given apart.
 */
export type FirestoreTarget =
  (FirestoreConnectionOptions & FirestoreBackendOptions) | FirestoreClient | string | undefined;

export function createFirestoreBackend(
  target?: FirestoreTarget,
  options?: FirestoreBackendOptions,
): ManagedLockBackend<FirestoreCapabilities>;

export function createLock(
  target?: FirestoreTarget,
  options?: FirestoreBackendOptions,
): AutoLock<FirestoreCapabilities>;
