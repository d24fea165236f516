// Opens the backend that a command line names.

import { checkNumberOfKeys } from "../base/sharing.js";
import { EXIT, Ended, wrongUsage } from "./exit.js";

/** @import { FencingCapabilities, LockError, ManagedLockBackend } from "../../index.js" */
/** @typedef {import("./parse.js").Given} Given */

/** The embedded backend with its default file. */
const HOST_WIDE = "sqlite:";

/** The options that a prefix stands for, by scheme.
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
 * @property {typeof import("../index.js")} library loaded on demand, because help does not need it
 * @property {string} place the URL without credentials
 * @property {boolean} isDefault whether neither --url nor SYNCGUARD_URL names a store
 */

/**
 * @typedef {object} Named
 * @property {string} source where the URL comes from, for messages
 * @property {string} text the URL
 * @property {object} options of the backend
 */

/**
 * @param {Given} given
 * @returns {Named}
 */
export function readStore({ url, prefix, label }) {
  const source = url === undefined ? "SYNCGUARD_URL" : "--url";
  const text = String(url ?? (process.env.SYNCGUARD_URL || HOST_WIDE));
  const scheme = schemeOf(text).toLowerCase();
  if (scheme === "memory:") {
    throw wrongUsage(
      `${source}: the locks of the memory backend end with this process, so no other command would see them. Name another store.`,
    );
  }
  const options = {
    ...(prefix !== undefined && prefixed(scheme, String(prefix))),
    ...(label !== undefined && { holderLabel: String(label) }),
  };
  return { source, text, options };
}

/**
 * @param {Given} given
 * @returns {Promise<Opened>}
 */
export async function openBackend(given) {
  const { source, text, options } = readStore(given);
  const { url } = given;
  const library = await import("../index.js");
  try {
    const backend = library.createBackend(text, options);
    const isDefault = url === undefined && !process.env.SYNCGUARD_URL;
    return { backend, library, place: withoutCredentials(text), isDefault };
  } catch (error) {
    if (!(error instanceof library.LockError)) throw error;
    if (error.code !== "InvalidArgument") throw failed(error, given);
    const aboutLabel = error.message.replace(/^holderLabel\b/, "--label");
    throw wrongUsage(aboutLabel === error.message ? `${source}: ${aboutLabel}.` : `${aboutLabel}.`);
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
    throw wrongUsage(
      "SQLite has no prefixes, so --prefix cannot be used. Use another file instead.",
    );
  }
  return PREFIXED[scheme](prefix);
}

/**
 * Returns the URL without its password, or only the scheme if the password cannot be removed safely.
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
 * @param {string[]} keys
 * @param {(key: string) => Promise<T>} use called with the first of them
 * @returns {Promise<T>}
 */
export async function withKeys({ library }, keys, use) {
  try {
    checkNumberOfKeys(keys.map((key) => library.normalizeAndValidateKey(key)));
  } catch (error) {
    throw wrongUsage(`${/** @type {Error} */ (error).message}.`);
  }
  return use(keys[0]);
}

/**
 * Runs a function with the backend, then closes it.
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
    throw error instanceof opened.library.LockError ? failed(error, options) : error;
  } finally {
    await opened.backend.close({ timeoutMs: 1000 }).catch(() => {});
  }
}

/** PostgreSQL: the tables, a column, the schema or the database is missing. */
const NOT_SET_UP = ["42P01", "42703", "3F000", "3D000"];

/**
 * Returns the error that ends `syncguard` after a failed operation. The exit code tells whether a retry can
 * help.
 * @param {LockError} error
 * @param {Given} given
 */
function failed(error, given) {
  const { sqlstate } = /** @type {{ sqlstate?: string }} */ (error.context ?? {});
  const exitCode = NOT_SET_UP.includes(sqlstate ?? "") ? EXIT.NOT_SET_UP : EXIT.UNAVAILABLE;
  return new Ended(exitCode, `${advised(error.message, given)} (${error.code}).`);
}

/**
 * Adds the prefix to the command that a message recommends. Without it, other tables would be created.
 * @param {string} text
 * @param {Given} given
 */
export function advised(text, { prefix }) {
  if (prefix === undefined) return text;
  return text.replaceAll("npx syncguard schema", (command) => `${command} --prefix ${prefix}`);
}
