// Backends by URL. One line for each scheme.

import { invalidArgument } from "../base/errors.js";
import { createFirestoreBackend } from "./firestore/backend.js";
import { createMemoryBackend } from "./memory/backend.js";
import { createPostgresBackend } from "./postgres/backend.js";
import { createRedisBackend } from "./redis/backend.js";
import { createManagedLock } from "./shared.js";
import { createSqliteBackend } from "./sqlite/backend.js";

/** @import { FencingCapabilities, ManagedLockBackend } from "../../index.js" */

/** @type {Record<string, (url: string, options: any) => ManagedLockBackend<FencingCapabilities>>} */
const SCHEMES = {
  "redis:": (url, options) => createRedisBackend(url, options),
  "rediss:": (url, options) => createRedisBackend(url, options),
  "postgres:": (url, options) => createPostgresBackend(url, options),
  "postgresql:": (url, options) => createPostgresBackend(url, options),
  "sqlite:": (url, options) => createSqliteBackend(url, options),
  "firestore:": (url, options) => createFirestoreBackend(url, options),
  "memory:": (_url, options) => createMemoryBackend(undefined, options),
};

const KNOWN = "redis:, rediss:, postgres:, postgresql:, firestore:, sqlite:, memory:";

/**
 * @param {unknown} url
 * @returns {string | undefined}
 */
function textOf(url) {
  if (typeof url === "string") return url;
  try {
    return url instanceof URL ? url.href : undefined;
  } catch {
    return undefined; // an object that does not even let itself be looked at
  }
}

/**
 * @param {string | URL} url
 * @param {any} [options]
 * @returns {ManagedLockBackend<any>} which one, the declared type tells by the URL
 */
export function createBackend(url, options) {
  const text = textOf(url);
  if (text === undefined) {
    throw invalidArgument(`createBackend() needs a URL that starts with one of ${KNOWN}`);
  }
  // Only the scheme is ever named in a message: the rest may hold a password.
  const scheme = /^[a-z][a-z0-9+.-]*:/i.exec(text)?.[0].toLowerCase() ?? "";
  if (!Object.hasOwn(SCHEMES, scheme)) {
    throw invalidArgument(`No backend for this URL: it must start with one of ${KNOWN}`);
  }
  return SCHEMES[scheme](text, options);
}

/**
 * lock() bound to the backend of a URL.
 * @param {string | URL} url
 * @param {any} [options]
 */
export function createLock(url, options) {
  return createManagedLock(createBackend(url, options));
}
