// Reads and checks the options of testBackend(), and fills in their defaults.

import { TIME_TOLERANCE_MS } from "../base/constants.js";
import { invalidArgument } from "../base/errors.js";

/** @import { TestBackendOptions } from "../../types/testing.js" */

/** The default TTL is short enough for a quick suite, and long enough for a store on the same machine. */
const DEFAULT_TTL_MS = 500;
const DEFAULT_TIMEOUT_MS = 20_000;

/**
 * @typedef {object} Options
 * @property {string} name
 * @property {() => any} create
 * @property {((backend: any) => unknown) | undefined} cleanUp
 * @property {boolean} supportsFencing
 * @property {boolean} shared
 * @property {number} ttlMs
 * @property {number} toleranceMs
 * @property {number} timeoutMs
 * @property {Set<string>} skip
 * @property {(name: string, body: () => void) => unknown} describe
 * @property {(name: string, body: () => Promise<void>, timeoutMs?: number) => unknown} test
 */

/**
 * @param {TestBackendOptions<any>} given
 * @param {string[]} behaviours the names that `skip` may contain
 * @returns {Options}
 */
export function readOptions(given, behaviours) {
  if (typeof given !== "object" || given === null || typeof given.create !== "function") {
    throw invalidArgument(
      "testBackend() got no create function. Pass one that returns your backend: testBackend({ create: () => createMyBackend() })",
    );
  }
  const { create, cleanUp } = given;
  if (cleanUp !== undefined && typeof cleanUp !== "function") {
    throw invalidArgument("cleanUp must be a function that takes a backend from create()");
  }
  const { name = "the contract of a backend", supportsFencing = true, shared = true } = given;
  if (typeof name !== "string") throw invalidArgument("name must be a string");
  checkBoolean("supportsFencing", supportsFencing);
  checkBoolean("shared", shared);
  const { ttlMs = DEFAULT_TTL_MS, timeoutMs = DEFAULT_TIMEOUT_MS } = given;
  const { toleranceMs = TIME_TOLERANCE_MS } = given;
  if (!Number.isInteger(ttlMs) || ttlMs <= 0) {
    throw invalidArgument("ttlMs must be a positive integer (milliseconds)");
  }
  checkDuration("toleranceMs", toleranceMs);
  checkDuration("timeoutMs", timeoutMs);
  const skip = readSkip(given.skip, behaviours);
  const { describe, test } = readRunner(given);
  return {
    ...{ name, create, cleanUp, supportsFencing, shared },
    ...{ ttlMs, toleranceMs, timeoutMs, skip, describe, test },
  };
}

/**
 * @param {unknown} skip
 * @param {string[]} behaviours
 */
function readSkip(skip, behaviours) {
  if (skip === undefined) return new Set();
  if (!Array.isArray(skip)) throw invalidArgument("skip must be an array of names of behaviours");
  const unknown = skip.filter((name) => !behaviours.includes(name));
  if (unknown.length > 0) {
    throw invalidArgument(
      `skip names no behaviour of the suite: ${unknown.map(String).join(", ")}. ` +
        "A test's title ends in the name of its behaviour, in brackets",
    );
  }
  return new Set(skip);
}

/**
 * Returns the functions of the test runner: those that were passed, or the global ones.
 * @param {TestBackendOptions<any>} given
 */
function readRunner(given) {
  const globals = /** @type {any} */ (globalThis);
  const describe = given.describe ?? globals.describe;
  const test = given.test ?? globals.test ?? globals.it;
  if (typeof describe !== "function" || typeof test !== "function") {
    throw invalidArgument(
      "testBackend() found no test runner: there is no global describe() and test(). Pass those of " +
        'your runner: import { describe, test } from "node:test", then testBackend({ describe, test, … })',
    );
  }
  return { describe, test };
}

/**
 * @param {string} name
 * @param {unknown} value
 */
function checkBoolean(name, value) {
  if (typeof value !== "boolean") throw invalidArgument(`${name} must be true or false`);
}

/**
 * @param {string} name
 * @param {unknown} ms
 */
function checkDuration(name, ms) {
  if (!(typeof ms === "number" && ms >= 0 && ms <= 0x7fff_ffff)) {
    throw invalidArgument(`${name} must be a non-negative number (milliseconds)`);
  }
}
