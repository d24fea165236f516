// Values for libpq's keywords.

import { invalidArgument } from "../../base/errors.js";
import { readTls } from "../tls.js";

export const WAY_OUT = "pass a URL or an options object instead";
const TLS_WAY_OUT = "leave it out, or say the rest with sslmode in a URL";

/**
 * `true` and objects, as for Node's tls.connect(); the rest is said with `sslmode`.
 * @param {any} ssl
 */
export function withTls(ssl) {
  if (ssl === true) return { tls: {} };
  return typeof ssl === "object" && ssl !== null
    ? { tls: readTls("ssl", ssl, TLS_WAY_OUT) }
    : undefined;
}

/** @param {unknown} value */
export function passwordText(value) {
  if (typeof value === "function") throw cannotTakeOver("a password that a function returns");
  return value;
}

/** @param {unknown} value */
export function list(value) {
  return Array.isArray(value) ? value.join(",") : value;
}

/**
 * Only what is there, as text.
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
export function cannotTakeOver(what) {
  return invalidArgument(
    `This PostgreSQL client has ${what}, which cannot be taken over: ${WAY_OUT}`,
  );
}
