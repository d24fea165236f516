// Opens backends by URL. Each scheme has one line.

import { defaultUrl } from "../base/config.js";
import { explain, invalidArgument, LockError } from "../base/errors.js";
import { A_BACKEND, isBackend } from "../base/recognize.js";
import { createFirestoreBackend } from "./firestore/backend.js";
import { createMemoryBackend } from "./memory/backend.js";
import { createPostgresBackend } from "./postgres/backend.js";
import { createRedisBackend } from "./redis/backend.js";
import { createManagedLock, missingTarget } from "./shared.js";
import { createSqliteBackend } from "./sqlite/backend.js";

/** @import { FencingCapabilities, ManagedLockBackend } from "../../index.js" */

/** @type {Record<string, (url: string, options: any) => ManagedLockBackend<FencingCapabilities>>} */
const SCHEMES = {
  "redis:": (url, options) => createRedisBackend(url, options),
  "rediss:": (url, options) => createRedisBackend(url, options),
  "postgres:": (url, options) => createPostgresBackend(url, options),
  "postgresql:": (url, options) => createPostgresBackend(url, options),
  "firestore:": (url, options) => createFirestoreBackend(url, options),
  "sqlite:": (url, options) => createSqliteBackend(url, options),
  "memory:": (_url, options) => createMemoryBackend(undefined, options),
};

const KNOWN = Object.keys(SCHEMES).join(", ");
const DEFAULTS = "SYNCGUARD_URL, or else this host's SQLite file";

/**
 * @param {unknown} url
 * @returns {string | undefined}
 */
function textOf(url) {
  if (typeof url === "string") return url;
  try {
    return url instanceof URL ? url.href : undefined;
  } catch {
    return undefined; // The properties of the object cannot be read.
  }
}

/**
 * @param {string} [url] what `defaultUrl()` returned
 * @returns {ManagedLockBackend<FencingCapabilities>}
 */
export function createDefaultBackend(url = defaultUrl()) {
  try {
    return createBackend(url);
  } catch (error) {
    // Any other error, such as a missing native addon, is not about the URL.
    const isUrlWrong = error instanceof LockError && error.code === "InvalidArgument";
    throw isUrlWrong ? invalidArgument(`SYNCGUARD_URL: ${error.message}`, { cause: error }) : error;
  }
}

/**
 * @param {string | URL} [url] without it, the default backend
 * @param {any} [options]
 * @returns {ManagedLockBackend<any>} of a type that the declarations derive from the URL
 */
export function createBackend(url, options) {
  if (arguments.length === 0) return createDefaultBackend();
  if (url === undefined || url === null) {
    throw missingTarget(`The URL of the backend is ${url}`, { defaults: DEFAULTS });
  }
  const text = textOf(url);
  if (text === undefined) {
    const what = isBackend(url) ? `. This is ${A_BACKEND.what}: ${A_BACKEND.remedy}` : explain(url);
    throw invalidArgument(`createBackend() needs a URL that starts with one of ${KNOWN}${what}`);
  }
  // Messages only ever show the scheme: the rest may contain a password.
  const scheme = /^[a-z][a-z0-9+.-]*:/i.exec(text)?.[0].toLowerCase() ?? "";
  if (!Object.hasOwn(SCHEMES, scheme)) {
    throw invalidArgument(`This URL names no backend: it must start with one of ${KNOWN}`);
  }
  return SCHEMES[scheme](text, options);
}

/**
 * Returns lock(), bound to the backend of a URL.
 * @param {[url?: string | URL, options?: any]} args
 */
export function createLock(...args) {
  return createManagedLock(createBackend(...args));
}
