// What the targets of all backends have in common: options that may stand in one object, and checks.

import { LONGEST_TIMER_MS } from "../base/config.js";
import { invalidArgument, LockError, unreadableOptions } from "../base/errors.js";
import { nearMiss, unknownOption } from "../base/options.js";
import { isDebugging, notify } from "../lock/handle.js";
import { createAutoLock } from "../lock/lock.js";

/** @import { BackendCapabilities, CloseOptions, ManagedLock, ManagedLockBackend } from "../../index.js" */

/** Options that every backend has. */
export const SHARED_OPTIONS = [
  "onReleaseError",
  "disposeTimeoutMs",
  "connectTimeoutMs",
  "operationTimeoutMs",
];

/**
 * Whatever a getter of the user's throws is told as what it is.
 * @template T
 * @param {string} call
 * @param {() => T} read
 * @returns {T}
 */
export function reading(call, read) {
  try {
    return read();
  } catch (thrown) {
    throw thrown instanceof LockError ? thrown : unreadableOptions(call, {}, thrown);
  }
}

/** @type {Set<string>} */
const noted = new Set();

/**
 * `process.env.SOME_URL` that is not set looks like a wish for what is used without a target.
 * @param {ArrayLike<unknown>} args of the call
 * @param {string} kind
 * @param {string} instead what is used then
 */
export function noteUndefined(args, kind, instead) {
  if (args.length === 0 || args[0] !== undefined || noted.has(kind) || !isDebugging()) return;
  noted.add(kind);
  notify(() =>
    console.warn(
      `[SyncGuard] The target of a ${kind} backend is undefined, so ${instead} is used. ` +
        "Is an environment variable not set? If it is meant so, pass no target, or only options",
    ),
  );
}

/**
 * Whether a target is an object that holds options, and nothing else that a target may be.
 * @param {unknown} target
 * @returns {target is Record<string, any>}
 */
export function isOptions(target) {
  if (typeof target !== "object" || target === null) return false;
  return !Array.isArray(target) && !(target instanceof URL);
}

/**
 * The options that are given; nothing and `null` are none.
 * @param {any} options
 * @param {readonly string[]} known
 * @returns {Record<string, any>}
 */
export function readOptions(options, known) {
  if (options === undefined || options === null) return {};
  if (!isOptions(options)) {
    throw invalidArgument("The backend's options must be an object");
  }
  for (const name of Object.keys(options)) {
    if (!known.includes(name) && options[name] !== undefined) throw unknownOption(name, known);
  }
  return given(options, known);
}

/**
 * The fields of an options object as the target, with the backend's options among them or apart;
 * those that are apart win.
 * @param {any} target
 * @param {any} options
 * @param {{ connection: readonly string[], options: readonly string[], noSettings: () => LockError }} known
 * @returns {{ connection: Record<string, any>, options: Record<string, any> }}
 */
export function readBoth(target, options, known) {
  const apart = readOptions(options, known.options);
  if (!isOptions(target)) return { connection: {}, options: apart };
  const names = [...known.connection, ...known.options];
  if (saysNothing(target, names)) throw known.noSettings();
  const all = readOptions(target, names);
  return {
    connection: given(all, known.connection),
    options: { ...given(all, known.options), ...apart },
  };
}

/**
 * An object of another kind, such as a mock of a client, is no set of options that are all left
 * out: those mean the database of the environment.
 * @param {any} target
 * @param {readonly string[]} names
 */
function saysNothing(target, names) {
  if (Object.keys(given(target, names)).length > 0) return false;
  return !isPlain(target) || Object.entries(target).some(isMethod);

  /** @param {[string, unknown]} field */
  function isMethod([name, value]) {
    return typeof value === "function" && nearMiss(name, names) === undefined;
  }
}

/**
 * @param {Record<string, any>} fields
 * @param {readonly string[]} names
 */
function given(fields, names) {
  /** @type {Record<string, any>} */
  const found = {};
  for (const name of names) {
    const value = fields[name];
    if (value !== undefined) found[name] = value;
  }
  return found;
}

/** @param {object} value also of another realm, as in Jest */
function isPlain(value) {
  const prototype = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

/**
 * For a client that was recognised by its methods only.
 * @param {string} kind
 * @param {string} wayOut
 */
export function noSettings(kind, wayOut) {
  return invalidArgument(
    `This ${kind} client has no connection settings that can be read (is it a mock?): ${wayOut}`,
  );
}

/**
 * @param {Record<string, any>} options
 * @param {"boolean" | "string"} type
 * @param {...string} names
 */
export function checkTypes(options, type, ...names) {
  for (const name of names) {
    if (options[name] !== undefined && typeof options[name] !== type) {
      throw invalidArgument(`${name} must be a ${type}`);
    }
  }
}

/**
 * @param {Record<string, any>} options
 * @param {...string} names
 */
export function checkTimeouts(options, ...names) {
  for (const name of ["connectTimeoutMs", "operationTimeoutMs", ...names]) {
    if (options[name] !== undefined && !isCount(options[name])) {
      throw invalidArgument(`${name} must be a positive integer (milliseconds)`);
    }
  }
}

/** @param {unknown} value */
export function isCount(value) {
  return Number.isInteger(value) && Number(value) > 0 && Number(value) <= LONGEST_TIMER_MS;
}

/**
 * lock() on a backend of its own, which can be closed with it.
 * @template {BackendCapabilities} C
 * @param {ManagedLockBackend<C>} backend
 * @returns {ManagedLock<C>}
 */
export function createManagedLock(backend) {
  return Object.assign(createAutoLock(backend), {
    close: (/** @type {CloseOptions | undefined} */ options) => backend.close(options),
    [Symbol.asyncDispose]: () => backend.close(),
  });
}
