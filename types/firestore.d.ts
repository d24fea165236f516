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
  /** `host:port` of an emulator. */
  emulatorHost?: string | undefined;
  host?: string | undefined;
  port?: number | undefined;
  ssl?: boolean | undefined;
  credentials?: { client_email?: string; private_key?: string } | undefined;
  keyFilename?: string | undefined;
}

/** A `Firestore` of @google-cloud/firestore: its settings are read. */
export interface FirestoreClient {
  collection(path: string): any;
  runTransaction(...args: any[]): any;
}

/** Nothing means the environment: GOOGLE_CLOUD_PROJECT, FIRESTORE_EMULATOR_HOST, credentials. */
export type FirestoreTarget = FirestoreConnectionOptions | FirestoreClient | undefined;

export function createFirestoreBackend(
  target?: FirestoreTarget,
  options?: FirestoreBackendOptions,
): ManagedLockBackend<FirestoreCapabilities>;

export function createLock(
  target?: FirestoreTarget,
  options?: FirestoreBackendOptions,
): AutoLock<FirestoreCapabilities>;
