// Everything that may be a target of the Firestore backend.

import { Firestore } from "@google-cloud/firestore";
import { createFirestoreBackend, createLock } from "syncguard/firestore";
import type { FirestoreConfig, FirestoreTarget, LockDocument } from "syncguard/firestore";

export const targets: FirestoreTarget[] = [
  undefined,
  "firestore://project/database",
  new URL("firestore://project"),
  { projectId: "p", databaseId: "d", emulatorHost: "h:1" },
  { projectId: "p", host: "h", port: 1, ssl: false, collection: "c" },
  { projectId: "p", credentials: { client_email: "e", private_key: "k" } },
  { keyFilename: "/k.json" },
  new Firestore({ projectId: "p" }),
];

export const backend = createFirestoreBackend(targets[1], {
  collection: "locks",
  fenceCollection: "fences",
  cleanupInIsLocked: true,
  connectTimeoutMs: 1_000,
  operationTimeoutMs: 1_000,
});
export const kind: "firestore" = backend.capabilities.backend;
export const authority: "client" = backend.capabilities.timeAuthority;
export const lock = createLock();
export const locked: Promise<string> = lock(({ fence }) => fence, { key: "k" });
export const closed: Promise<void> = lock.close();

const config: FirestoreConfig = {
  collection: "locks",
  fenceCollection: "fence_counters",
  cleanupInIsLocked: false,
};
createFirestoreBackend("firestore://p", config);
// @ts-expect-error the defaults are filled in
({ collection: "locks" }) satisfies FirestoreConfig;
export const document: LockDocument = {
  lockId: "id",
  expiresAtMs: 2,
  acquiredAtMs: 1,
  key: "k",
  fence: "000000000000001",
};

// @ts-expect-error a collection is named by a string
createFirestoreBackend("firestore://p", { collection: 7 });
// @ts-expect-error there is no such option
createFirestoreBackend("firestore://p", { keyPrefix: "x" });
