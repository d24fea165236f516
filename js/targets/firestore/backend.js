// Locks in Firestore.

import { createNativeBackend } from "../../native/backend.js";
import { checkTarget, createManagedLock, reading } from "../shared.js";
import { KNOWN, readTarget } from "./target.js";

const CAPABILITIES = /** @type {const} */ ({
  backend: "firestore",
  supportsFencing: true,
  timeAuthority: "client",
});

/**
 * Creates a backend that connects on first use. Without a Firestore instance, all options can be in one
 * object.
 * @param {any} [target] a Firestore instance, connection options, a URL, or nothing: the environment
 * @param {any} [options]
 */
export function createFirestoreBackend(target, options) {
  checkTarget(arguments, KNOWN);
  const { config, hooks } = reading("createFirestoreBackend()", () => readTarget(target, options));
  return createNativeBackend("firestore", config, hooks, CAPABILITIES);
}

/** @param {[target?: any, options?: any]} args */
export function createLock(...args) {
  return createManagedLock(createFirestoreBackend(...args));
}
