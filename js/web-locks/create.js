// Creates lock managers.

import { checkBackend, invalidArgument } from "../base/errors.js";
import { unknownOption } from "../base/options.js";
import { backendOf } from "../targets/given.js";
import { isCount } from "../targets/shared.js";
import { makeLockManager } from "./interface.js";
import { originOf } from "./origin.js";

/** @import { LockManagerOptions } from "../../types/web-locks.js" */

/**
 * Returns an object with the interface of `navigator.locks`.
 * @param {[target?: any, options?: LockManagerOptions]} args
 * @returns {any}
 */
export function createLockManager(...args) {
  const ttlMs = readTtl(args[1]);
  const { backend, close } = backendOf(args.slice(0, 1));
  checkBackend(backend, ["acquire", "release", "extend"]);
  return makeLockManager(originOf(backend), ttlMs, close);
}

/** @param {LockManagerOptions} [options] */
function readTtl(options = {}) {
  if (typeof options !== "object" || options === null) {
    throw invalidArgument("The options of createLockManager() must be an object");
  }
  for (const name of Object.keys(options)) {
    if (name !== "ttlMs") throw unknownOption(name, ["ttlMs"]);
  }
  const { ttlMs } = options;
  if (ttlMs !== undefined && !isCount(ttlMs)) {
    throw invalidArgument("ttlMs must be a positive integer (milliseconds)");
  }
  return ttlMs;
}
