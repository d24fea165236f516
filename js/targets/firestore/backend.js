// Locks in Firestore.

import { unreadableOptions } from "../../base/errors.js";
import { isFirestoreInstance, readTarget } from "./target.js";
import { createNativeBackend } from "../../native/backend.js";
import { createAutoLock } from "../../lock/lock.js";

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
  const connection = readTarget(target);
  const inOne = options === undefined && typeof target === "object" && !isFirestoreInstance(target);
  return open(connection, (inOne ? target : options) ?? undefined);
}

/**
 * @param {any} [target]
 * @param {any} [options]
 */
export function createLock(target, options) {
  return createAutoLock(createFirestoreBackend(target, options));
}

/**
 * @param {import("./target.js").FirestoreConnection} connection
 * @param {any} options
 */
function open(connection, options) {
  let config;
  try {
    const { collection, fenceCollection, cleanupInIsLocked } = options ?? {};
    const { connectTimeoutMs, operationTimeoutMs } = options ?? {};
    config = {
      ...connection,
      collection,
      fenceCollection,
      cleanupInIsLocked,
      connectTimeoutMs,
      operationTimeoutMs,
    };
  } catch (cause) {
    throw unreadableOptions("createFirestoreBackend()", options, cause);
  }
  return createNativeBackend("firestore", config, options, CAPABILITIES);
}
