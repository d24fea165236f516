// Converts options to values for libpq's keywords.

import { invalidArgument } from "../../base/errors.js";
import { readTls } from "../tls.js";

export const REMEDY = "pass a URL or an options object instead";
const TLS_REMEDY = "leave it out, or set sslmode in a URL";

/**
 * Reads `ssl` if it is `true` or an object, as for Node's tls.connect(). Other values become `sslmode`.
 * @param {any} ssl
 */
export function withTls(ssl) {
  if (ssl === true) return { tls: {} };
  return typeof ssl === "object" && ssl !== null
    ? { tls: readTls("ssl", ssl, TLS_REMEDY) }
    : undefined;
}

/**
 * Returns the password, or the function that is called for each new connection.
 * @param {any} value
 * @param {any} [client] the object of which the function is a method
 * @param {any} [parameters] the argument of the function
 */
export function readPassword(value, client, parameters) {
  if (typeof value !== "function") return { password: value };
  const ask = async () => ({ password: await value.call(client, parameters) });
  return { password: undefined, askPassword: ask };
}

/** @param {unknown} value */
export function list(value) {
  return Array.isArray(value) ? value.join(",") : value;
}

/**
 * Returns the given values as text, without those that are missing.
 * @param {Record<string, unknown>} params
 */
export function compact(params) {
  /** @type {Record<string, string>} */
  const found = {};
  for (const [name, value] of Object.entries(params)) {
    if (value === undefined || value === null || value === "") continue;
    if (typeof value === "object" || typeof value === "function" || typeof value === "symbol") {
      throw invalidArgument(`The PostgreSQL option for ${name} must be a string or a number`);
    }
    found[name] = String(value);
  }
  return found;
}

/** @param {string} what */
export function unsupported(what) {
  return invalidArgument(
    `This PostgreSQL client has ${what}, which a native connection cannot use: ${REMEDY}`,
  );
}
