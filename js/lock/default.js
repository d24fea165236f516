// The forms without a backend, and the one that they use.

import { invalidArgument, toError } from "../base/errors.js";
import { holdWith, tryHoldWith } from "./hold.js";
import { leadWith } from "./lead.js";
import { lockWith, tryLockWith } from "./lock.js";

/** @import { FencingCapabilities, ManagedLockBackend } from "../../index.js" */

/** The embedded backend with its default file. */
const HOST_WIDE = "sqlite:";

/** One backend for each URL, shared by all calls.
 * @type {Map<string, ManagedLockBackend<FencingCapabilities>>} */
const defaults = new Map();

async function defaultBackend() {
  const url = process.env.SYNCGUARD_URL || HOST_WIDE;
  // Only now: who brings a backend along need not load all of them.
  const { createBackend } = await import("../targets/open.js");
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
 * With a backend first, or with the default one.
 * @param {(backend: any, fn: any, config: any) => Promise<any>} form
 * @returns {(...args: any[]) => Promise<any>}
 */
function withFunction(form) {
  return (backendOrFn, fnOrConfig, config) => {
    if (typeof backendOrFn === "function" && typeof fnOrConfig !== "function") {
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
