// Locks inside one process: for tests and single-process programs.

import { createNativeBackend } from "../../native/backend.js";
import { createAutoLock } from "../../lock/lock.js";

const CAPABILITIES = /** @type {const} */ ({
  backend: "memory",
  supportsFencing: true,
  timeAuthority: "server",
});

/**
 * A store of its own. There is nothing to connect to, so the options may also come first.
 * @param {any} [target]
 * @param {any} [options]
 */
export function createMemoryBackend(target, options) {
  const given = typeof target === "object" ? target : options;
  return createNativeBackend("memory", {}, given, CAPABILITIES);
}

/**
 * @param {any} [target]
 * @param {any} [options]
 */
export function createLock(target, options) {
  return createAutoLock(createMemoryBackend(target, options));
}
