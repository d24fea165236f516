// Finds the folder of this code, even if a bundler has packed it.

import { dirname, isAbsolute } from "node:path";
import { fileURLToPath } from "node:url";

/**
 * Returns the folder of the file that this code runs from. `undefined` if it does not run from a file.
 *
 * The JavaScript engine knows best. `__dirname` does not exist in a bundle of ES modules, and some bundlers
 * replace it by a folder of the machine that created the bundle (`bun build`) or by a name that is not a
 * folder (Turbopack). It is only right for code that is evaluated as text, as by webpack in development, for
 * which the engine knows no file.
 * @returns {string | undefined}
 */
export function ownFolder() {
  const file = ownFile();
  if (file !== undefined) return dirname(file);
  const named = import.meta.dirname;
  return typeof named === "string" && isAbsolute(named) ? named : undefined;
}

/**
 * Returns the folder of the executable that this code is packed into. `undefined` if it is not packed: beside
 * a plain `node` there is no addon.
 * @returns {string | undefined}
 */
export function executableFolder() {
  return isPacked() ? dirname(process.execPath) : undefined;
}

/** Returns whether a tool packed the runtime and the program into one executable. */
function isPacked() {
  const { Deno, process } = /** @type {any} */ (globalThis);
  if (process.pkg !== undefined || Deno?.build?.standalone) return true;
  // Executables of Bun have a virtual file system for packed files.
  if (/^(\/\$bunfs\/|[A-Z]:[\\/]~BUN[\\/])/.test(ownFile() ?? "")) return true;
  return process.getBuiltinModule?.("node:sea")?.isSea() === true;
}

function ownFile() {
  const name = callSite()?.getFileName();
  if (typeof name !== "string") return undefined;
  try {
    const file = name.startsWith("file:") ? fileURLToPath(name) : name;
    return isAbsolute(file) ? file : undefined;
  } catch {
    return undefined; // The URL names no file of this machine.
  }
}

/** @returns {NodeJS.CallSite | undefined} */
function callSite() {
  const { prepareStackTrace, stackTraceLimit } = Error;
  try {
    Error.stackTraceLimit = 1;
    Error.prepareStackTrace = (_error, sites) => sites;
    const sites = /** @type {unknown} */ (new Error().stack);
    return Array.isArray(sites) ? sites[0] : undefined;
  } catch {
    return undefined; // A program may have frozen Error.
  } finally {
    restore(prepareStackTrace, stackTraceLimit);
  }
}

/**
 * @param {typeof Error.prepareStackTrace} prepareStackTrace
 * @param {number} stackTraceLimit
 */
function restore(prepareStackTrace, stackTraceLimit) {
  try {
    Error.stackTraceLimit = stackTraceLimit;
    Error.prepareStackTrace = prepareStackTrace;
  } catch {
    // Error is frozen, so nothing was changed either.
  }
}
