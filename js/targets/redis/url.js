// Redis URLs. No message quotes one, because it may contain a password.

import { invalidArgument } from "../../base/errors.js";

/** @typedef {import("./options.js").RedisSettings} RedisSettings */

const MALFORMED =
  "This Redis URL cannot be read. A Redis URL has the form redis://user:password@host:port/db, " +
  "rediss://… for TLS, or unix:/path/to/socket?db=0";

const NUMBERS = ["db", "family", "connectTimeoutMs", "operationTimeoutMs"];
const TEXTS = ["keyPrefix"];

/**
 * @param {string} url
 * @returns {RedisSettings & Record<string, any>}
 */
export function readUrl(url) {
  try {
    return /^unix:/i.test(url) ? readUnix(url) : readTcp(new URL(url));
  } catch (error) {
    if (error instanceof Error && error.name === "LockError") throw error;
    // The error has no cause, because the error of new URL() quotes the URL.
    throw invalidArgument(MALFORMED);
  }
}

/** @param {URL} url */
function readTcp({ protocol, hostname, port, username, password, pathname, searchParams, hash }) {
  const secure = protocol === "rediss:" || protocol === "valkeys:";
  if ((!secure && protocol !== "redis:" && protocol !== "valkey:") || hash !== "") {
    throw invalidArgument(MALFORMED);
  }
  const db = pathname.replace(/^\//, "");
  if (!/^\d*$/.test(db)) throw invalidArgument(MALFORMED);
  return {
    host: hostname === "" ? "127.0.0.1" : hostname.replace(/^\[|\]$/g, ""),
    port: port === "" ? 6379 : Number(port),
    ...credentials(username, password),
    ...(db === "" ? undefined : { db: Number(db) }),
    ...(secure ? { tls: true } : undefined),
    ...readQuery(searchParams),
  };
}

/** @param {string} url */
function readUnix(url) {
  const parts = /^unix:(?:\/\/(?:([^:@/]*)(?::([^@/]*))?@)?)?(\/[^?#]+)(?:\?([^#]*))?$/i.exec(url);
  if (parts === null) throw invalidArgument(MALFORMED);
  const [, username = "", password = "", path, query] = parts;
  return {
    path: decodeURIComponent(path),
    ...credentials(username, password),
    ...readQuery(new URLSearchParams(query)),
  };
}

/**
 * @param {string} username
 * @param {string} password
 */
function credentials(username, password) {
  return {
    ...(username === "" ? undefined : { username: decodeURIComponent(username) }),
    ...(password === "" ? undefined : { password: decodeURIComponent(password) }),
  };
}

/** @param {URLSearchParams} query */
function readQuery(query) {
  /** @type {Record<string, string | number>} */
  const settings = {};
  for (const [name, value] of query) {
    if (NUMBERS.includes(name)) settings[name] = value === "" ? NaN : Number(value);
    else if (TEXTS.includes(name)) settings[name] = value;
    else {
      throw invalidArgument(
        `Unknown parameter in the Redis URL: use only ${[...NUMBERS, ...TEXTS].join(", ")}`,
      );
    }
  }
  return settings;
}
