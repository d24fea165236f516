// Locks in Firestore.

import { createNativeBackend } from "../../native/backend.js";
import { createManagedLock, noteUndefined, reading } from "../shared.js";
import { readTarget } from "./target.js";

const CAPABILITIES = /** @type {const} */ ({
  backend: "firestore",
  supportsFencing: true,
  timeAuthority: "client",
});

/**
 * Connects on first use. Without a Firestore instance everything may be in one object.
 * @param {any} [target] a Firestore instance, connection options, a URL, or nothing: the environment
 * @param {any} [options]
 */
export function createFirestoreBackend(target, options) {
  noteUndefined(arguments, "Firestore", "the environment (GOOGLE_CLOUD_PROJECT and so on)");
  const { config, hooks } = reading("createFirestoreBackend()", () => readTarget(target, options));
  return createNativeBackend("firestore", config, hooks, CAPABILITIES);
}

/** @param {[target?: any, options?: any]} args */
export function createLock(...args) {
  return createManagedLock(createFirestoreBackend(...args));
}
