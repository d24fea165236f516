// What the targets of all backends share: options that can be in the same object, and checks.

import { LONGEST_TIMER_MS } from "../base/config.js";
import { invalidArgument, LockError, unreadableOptions } from "../base/errors.js";
import { A_BACKEND, isBackend, recognize, rememberLockFunction } from "../base/recognize.js";
import { nearMiss, unknownOption } from "../base/options.js";
import { holdWith, tryHoldWith } from "../lock/hold.js";
import { leadWith } from "../lock/lead.js";
import { createAutoLock, tryLockWith } from "../lock/lock.js";

/** @import { BackendCapabilities, ManagedLock, ManagedLockBackend } from "../../index.js" */

/** Options that every backend has. */
export const SHARED_OPTIONS = [
  "onReleaseError",
  "disposeTimeoutMs",
  "connectTimeoutMs",
  "operationTimeoutMs",
  "holderLabel",
  "releaseOnExit",
];

/**
 * Reads properties of a user's object. If a getter throws, the error says so.
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

/**
 * The fields and options that a kind of backend accepts in one object.
 * @typedef {object} KnownOptions
 * @property {string} kind the name of the store
 * @property {string} create the name of the function that opens it
 * @property {string} defaults what is used without a target
 * @property {readonly string[]} connection the names of the connection options
 * @property {readonly string[]} identifying those connection options that say which store is meant
 * @property {readonly string[]} options the names of the backend's own options
 * @property {() => LockError} noSettings makes the error for an object that is not an options object
 */

/**
 * Refuses a target of `undefined` or `null`, the value of an environment variable that is not set.
 * Defaults are for calls without arguments only: a lock on the wrong server protects nothing.
 * @param {ArrayLike<unknown>} args of the call
 * @param {Pick<KnownOptions, "kind" | "defaults">} known
 */
export function checkTarget(args, known) {
  if (args.length > 0 && (args[0] === undefined || args[0] === null)) {
    throw missingTarget(`The ${known.kind} target is ${args[0]}`, known);
  }
}

/**
 * @param {string} what
 * @param {Pick<KnownOptions, "defaults">} known
 */
export function missingTarget(what, { defaults }) {
  return invalidArgument(
    `${what}. Check the environment variable that it comes from. ` +
      `Only a call without a target uses the defaults (${defaults})`,
  );
}

/**
 * Refuses options that should say which store is meant but are all undefined, as in
 * `{ url: process.env.SOME_URL }`. A port counts only if no other such option is given:
 * `{ host: process.env.SOME_HOST, port: 6379 }` does not mean localhost.
 * @param {Record<string, any>} target
 * @param {KnownOptions} known
 */
function checkIdentified(target, known) {
  const given = known.identifying.filter((name) => Object.hasOwn(target, name));
  const named = given.length > 1 ? given.filter((name) => name !== "port") : given;
  if (named.length === 0 || named.some((name) => target[name] != null)) return;
  throw missingTarget(`In the ${known.kind} target, ${named.join(", ")} is undefined`, known);
}

/**
 * Returns whether a target is an options object, and not another kind of target.
 * @param {unknown} target
 * @returns {target is Record<string, any>}
 */
export function isOptions(target) {
  if (typeof target !== "object" || target === null) return false;
  return !Array.isArray(target) && !(target instanceof URL);
}

/**
 * Returns the given options. `undefined` and `null` count as none.
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
 * Splits an options object into the target and the backend's options. Options that are passed as a
 * separate argument take precedence.
 * @param {any} target
 * @param {any} options
 * @param {KnownOptions} known
 * @returns {{ connection: Record<string, any>, options: Record<string, any> }}
 */
export function readBoth(target, options, known) {
  const apart = readOptions(options, known.options);
  if (!isOptions(target)) return { connection: {}, options: apart };
  const names = [...known.connection, ...known.options];
  const isForeign = namesNoOption(target, names);
  if (isForeign || !isPlain(target)) refuseMisplaced(target, known);
  if (isForeign) throw known.noSettings();
  checkIdentified(target, known);
  const all = readOptions(target, names);
  return {
    connection: given(all, known.connection),
    options: { ...given(all, known.options), ...apart },
  };
}

/**
 * Throws if the target is something that another function accepts.
 * @param {unknown} target
 * @param {KnownOptions} known
 */
function refuseMisplaced(target, { kind, create }) {
  const { what, remedy } = isBackend(target) ? A_BACKEND : (recognize(target) ?? NOTHING_KNOWN);
  if (remedy === "" || remedy.startsWith(create)) return;
  throw invalidArgument(`The target of a ${kind} backend is ${what}: ${remedy}`);
}

const NOTHING_KNOWN = { what: "", remedy: "" };

/**
 * Returns whether an object, such as a mocked client, has no known option. Such an object must not stand for
 * the database of the environment.
 * @param {any} target
 * @param {readonly string[]} names
 */
function namesNoOption(target, names) {
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

/** @param {object} value which can be of another realm, as in Jest */
function isPlain(value) {
  const prototype = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

/**
 * Returns the error for a client that has the methods of one but no settings.
 * @param {string} kind
 * @param {string} remedy
 */
export function noSettings(kind, remedy) {
  return invalidArgument(
    `This ${kind} client shows no connection settings, as if it were a mock: ${remedy}`,
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
 * Returns lock() and its variants, bound to a backend that belongs to them and that they can close.
 * @template {BackendCapabilities} C
 * @param {ManagedLockBackend<C>} backend
 * @returns {ManagedLock<C>}
 */
export function createManagedLock(backend) {
  /** @type {Record<keyof ManagedLock<C>, (...args: any[]) => Promise<any>>} */
  const methods = {
    tryLock: (fn, config) => tryLockWith(backend, fn, config),
    hold: (config) => holdWith(backend, config),
    tryHold: (config) => tryHoldWith(backend, config),
    lead: (fn, config) => leadWith(backend, fn, config),
    close: (options) => backend.close(options),
    [Symbol.asyncDispose]: () => backend.close(),
  };
  const lock = Object.assign(createAutoLock(backend), methods);
  rememberLockFunction(lock);
  return lock;
}
