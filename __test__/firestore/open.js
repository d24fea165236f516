// Opens backends and Google's client on the emulator of the test run.

import { randomBytes } from "node:crypto";
import { Firestore } from "@google-cloud/firestore";
import { createFirestoreBackend } from "../../js/firestore.js";

export const PROJECT = "test";

/** Returns the names of collections that no other test uses. */
export function collections(namespace = `t_${randomBytes(6).toString("hex")}`) {
  return { collection: `${namespace}_locks`, fenceCollection: `${namespace}_fences` };
}

/** Opens a backend. The processes of a stress run call this, too. */
export function open({ emulatorHost, ...options } = {}) {
  return createFirestoreBackend({ projectId: PROJECT, emulatorHost }, options);
}

// Without this, Google's client looks for a metadata server and warns that there is none.
process.env.METADATA_SERVER_DETECTION = "none";

/** Opens Google's client on the given emulator, or on that of the environment. */
export function google(emulatorHost = process.env.FIRESTORE_EMULATOR_HOST) {
  const [, host, port] = /^(.*):(\d+)$/.exec(emulatorHost);
  return new Firestore({ projectId: PROJECT, host, port: Number(port), ssl: false });
}
