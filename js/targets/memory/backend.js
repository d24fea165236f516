// Locks inside one process: for tests and single-process programs.

import { invalidArgument } from "../../base/errors.js";
import { createNativeBackend } from "../../native/backend.js";
import {
  checkTimeouts,
  createManagedLock,
  isOptions,
  reading,
  readOptions,
  SHARED_OPTIONS,
} from "../shared.js";

const CAPABILITIES = /** @type {const} */ ({
  backend: "memory",
  supportsFencing: true,
  timeAuthority: "server",
});

const OPTIONS = [...SHARED_OPTIONS, "clock"];
const CLOCKS = ["system", "javascript"];

/**
 * Creates a backend with a store of its own. There is nothing to connect to, so the options can also
 * come first.
 * @param {any} [target]
 * @param {any} [options]
 */
export function createMemoryBackend(target, options) {
  const given = reading("createMemoryBackend()", () => readTarget(target, options));
  const { clock } = given;
  return createNativeBackend("memory", { clock }, given, CAPABILITIES);
}

/**
 * @param {any} [target]
 * @param {any} [options]
 */
export function createLock(target, options) {
  return createManagedLock(createMemoryBackend(target, options));
}

/**
 * @param {any} target
 * @param {any} options
 */
function readTarget(target, options) {
  const given = {
    ...(isOptions(target) && readOptions(target, OPTIONS)),
    ...readOptions(options, OPTIONS),
  };
  // Timeouts have no effect here, but programs may pass the same options to any backend.
  checkTimeouts(given);
  if (given.clock !== undefined && !CLOCKS.includes(given.clock)) {
    throw invalidArgument('clock must be "system" or "javascript"');
  }
  return given;
}
