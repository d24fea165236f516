// lock(), hold() and similar functions as users call them: with a backend, or with the default one.

import { defaultUrl } from "../base/config.js";
import { explain, invalidArgument } from "../base/errors.js";
import { recognizeFunction } from "../base/recognize.js";
import { holdWith, tryHoldWith } from "../lock/hold.js";
import { leadWith } from "../lock/lead.js";
import { lockWith, tryLockWith } from "../lock/lock.js";

/** @import { FencingCapabilities, ManagedLockBackend } from "../../index.js" */

/** One backend for each URL, shared by all calls.
 * @type {Map<string, ManagedLockBackend<FencingCapabilities>>} */
const defaults = new Map();

async function defaultBackend() {
  const url = defaultUrl();
  // Loaded on demand: a program that brings its own backend does not need all of them.
  const { createDefaultBackend } = await import("./open.js");
  let backend = defaults.get(url);
  if (backend === undefined) {
    backend = createDefaultBackend(url);
    defaults.set(url, backend);
  }
  return backend;
}

/** @param {Function} given in place of a backend, or of the function to run */
function noBackend(given) {
  return invalidArgument(
    `The first argument must be a backend or a function to run${explain(given)}`,
  );
}

/**
 * Returns the function that users call, with a backend as the first argument or with the default backend.
 * @param {(backend: any, fn: any, config: any) => Promise<any>} form
 * @returns {(...args: any[]) => Promise<any>}
 */
function withFunction(form) {
  return (backendOrFn, fnOrConfig, config) => {
    if (typeof backendOrFn === "function" && typeof fnOrConfig !== "function") {
      if (recognizeFunction(backendOrFn) !== undefined)
        return Promise.reject(noBackend(backendOrFn));
      return defaultBackend().then((backend) => form(backend, backendOrFn, fnOrConfig));
    }
    return form(backendOrFn, fnOrConfig, config);
  };
}

/**
 * @param {(backend: any, config: any) => Promise<any>} form
 * @returns {(...args: any[]) => Promise<any>}
 */
function withoutFunction(form) {
  return (...args) =>
    args.length < 2
      ? defaultBackend().then((backend) => form(backend, args[0]))
      : form(args[0], args[1]);
}

export const lock = withFunction(lockWith);
export const tryLock = withFunction(tryLockWith);
export const lead = withFunction(leadWith);
export const hold = withoutFunction(holdWith);
export const tryHold = withoutFunction(tryHoldWith);
