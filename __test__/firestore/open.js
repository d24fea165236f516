// Backends and Google's client on the emulator of the test run.

import { randomBytes } from "node:crypto";
import { Firestore } from "@google-cloud/firestore";
import { createFirestoreBackend } from "../../js/firestore.js";

export const PROJECT = "test";

/** Collections that nobody else uses. */
export function collections(namespace = `t_${randomBytes(6).toString("hex")}`) {
  return { collection: `${namespace}_locks`, fenceCollection: `${namespace}_fences` };
}

/** Also what the processes of a stress run call. */
export function open({ emulatorHost, ...options } = {}) {
  return createFirestoreBackend({ projectId: PROJECT, emulatorHost }, options);
}

// There is no metadata server to be found here; Google's client would look for one and say so.
process.env.METADATA_SERVER_DETECTION = "none";

/** Google's client, on the emulator of the environment unless another is given. */
export function google(emulatorHost = process.env.FIRESTORE_EMULATOR_HOST) {
  const [, host, port] = /^(.*):(\d+)$/.exec(emulatorHost);
  return new Firestore({ projectId: PROJECT, host, port: Number(port), ssl: false });
}
