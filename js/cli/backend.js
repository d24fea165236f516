// The backend that a command line names.

import { EXIT, Ended, wrongUsage } from "./exit.js";

/** @import { FencingCapabilities, LockError, ManagedLockBackend } from "../../index.js" */
/** @typedef {import("./parse.js").Given} Given */

/** The embedded backend with its default file. */
const HOST_WIDE = "sqlite:";

/** What a prefix means, by scheme.
 * @type {Record<string, (prefix: string) => object>} */
const PREFIXED = {
  "redis:": ofKeys,
  "rediss:": ofKeys,
  "postgres:": ofTables,
  "postgresql:": ofTables,
  "firestore:": (prefix) => ({
    collection: `${prefix}_locks`,
    fenceCollection: `${prefix}_fence_counters`,
  }),
};

/** @param {string} prefix */
function ofKeys(prefix) {
  return { keyPrefix: prefix };
}

/** @param {string} prefix */
function ofTables(prefix) {
  return { tableName: `${prefix}_locks`, fenceTableName: `${prefix}_fence_counters` };
}

/**
 * @typedef {object} Opened
 * @property {ManagedLockBackend<FencingCapabilities>} backend
 * @property {typeof import("../index.js")} library loaded only now: help needs nothing of it
 * @property {string} place where it is, without credentials
 */

/**
 * @param {Given} options
 * @returns {Promise<Opened>}
 */
export async function openBackend({ url, prefix }) {
  const source = url === undefined ? "SYNCGUARD_URL" : "--url";
  const text = String(url ?? (process.env.SYNCGUARD_URL || HOST_WIDE));
  const scheme = schemeOf(text).toLowerCase();
  if (scheme === "memory:") {
    throw wrongUsage(
      `${source}: the memory backend ends with its process, so other commands would not see its locks.`,
    );
  }
  const library = await import("../index.js");
  try {
    const options = prefix === undefined ? undefined : prefixed(scheme, String(prefix));
    const backend = library.createBackend(text, options);
    return { backend, library, place: withoutCredentials(text) };
  } catch (error) {
    if (!(error instanceof library.LockError)) throw error;
    throw wrongUsage(`${source}: ${error.message}.`);
  }
}

/** @param {string} url */
function schemeOf(url) {
  return /^[a-z]+:/i.exec(url)?.[0] ?? "";
}

/**
 * @param {string} scheme
 * @param {string} prefix
 */
function prefixed(scheme, prefix) {
  if (!Object.hasOwn(PREFIXED, scheme)) {
    throw wrongUsage("--prefix is for Redis, PostgreSQL and Firestore: give SQLite another file.");
  }
  return PREFIXED[scheme](prefix);
}

/**
 * Where a password may be anything but surely left out, only the scheme is told.
 * @param {string} url
 */
export function withoutCredentials(url) {
  const scheme = schemeOf(url);
  const place = url.slice(scheme.length);
  const end = place.search(/[?#]/);
  const [path, rest] = end < 0 ? [place, ""] : [place.slice(0, end), place.slice(end)];
  if (rest.includes("@")) return scheme;
  return scheme + path.replace(/^(\/\/)?.*@/, "$1");
}

/**
 * @template T
 * @param {Opened} opened
 * @param {string} key
 * @param {() => Promise<T>} use
 * @returns {Promise<T>}
 */
export async function withKey({ library }, key, use) {
  try {
    library.normalizeAndValidateKey(key);
  } catch (error) {
    throw wrongUsage(`${/** @type {Error} */ (error).message}.`);
  }
  return use();
}

/**
 * Uses the backend, and closes it.
 * @template T
 * @param {Given} options
 * @param {(opened: Opened) => Promise<T>} use
 * @returns {Promise<T>}
 */
export async function withBackend(options, use) {
  const opened = await openBackend(options);
  try {
    return await use(opened);
  } catch (error) {
    throw error instanceof opened.library.LockError ? unavailable(error) : error;
  } finally {
    await opened.backend.close({ timeoutMs: 1000 }).catch(() => {});
  }
}

/** @param {LockError} error */
function unavailable(error) {
  return new Ended(EXIT.UNAVAILABLE, `${error.message} (${error.code}).`);
}
