// lock() with its two call forms, and the backend it uses when none is given.

import { invalidArgument, toError } from "../base/errors.js";
import { createBackend } from "../targets/open.js";
import { createAutoLock, lockWith } from "./run.js";

/** @import { FencingCapabilities, ManagedLockBackend } from "../../index.js" */

/** The embedded backend with its default file. */
const HOST_WIDE = "sqlite:";

/** One backend for each URL, shared by all calls.
 * @type {Map<string, ManagedLockBackend<FencingCapabilities>>} */
const defaults = new Map();

function defaultBackend() {
  const url = process.env.SYNCGUARD_URL || HOST_WIDE;
  let backend = defaults.get(url);
  if (backend === undefined) {
    try {
      backend = createBackend(url);
    } catch (cause) {
      throw invalidArgument(`SYNCGUARD_URL: ${toError(cause).message}`, { cause });
    }
    defaults.set(url, backend);
  }
  return backend;
}

/**
 * `lock(fn, config)` or `lock(backend, fn, config)`.
 * @param {any} backendOrFn
 * @param {any} fnOrConfig
 * @param {any} [config]
 * @returns {Promise<any>}
 */
export function lock(backendOrFn, fnOrConfig, config) {
  if (typeof backendOrFn === "function" && typeof fnOrConfig !== "function") {
    return lockByDefault(backendOrFn, fnOrConfig);
  }
  return lockWith(backendOrFn, fnOrConfig, config);
}

/**
 * Async, so that a backend that cannot be opened rejects.
 * @param {any} fn
 * @param {any} config
 */
async function lockByDefault(fn, config) {
  return lockWith(defaultBackend(), fn, config);
}

/**
 * lock() bound to the backend of a URL.
 * @param {string | URL} url
 * @param {any} [options]
 */
export function createLock(url, options) {
  return createAutoLock(createBackend(url, options));
}
