// Reads Node's TLS options, as far as the native side supports them.

import { invalidArgument } from "../base/errors.js";

/**
 * @typedef {object} TlsConfig
 * @property {string[]} [ca]
 * @property {string} [cert]
 * @property {string} [key]
 * @property {string} [servername]
 * @property {boolean} [rejectUnauthorized]
 */

const UNDERSTOOD = ["ca", "cert", "key", "servername", "rejectUnauthorized"];

/**
 * @param {string} field the name of the user's option
 * @param {any} options
 * @param {string} remedy what to do about an option that is not supported
 * @returns {TlsConfig}
 */
export function readTls(field, options, remedy) {
  for (const [name, value] of Object.entries(options)) {
    if (value !== undefined && !UNDERSTOOD.includes(name)) {
      throw invalidArgument(
        `${field}.${name} is not supported, because only ${UNDERSTOOD.join(", ")} are: ${remedy}`,
      );
    }
  }
  // The key of pg is not enumerable, so it is not among the entries.
  const { ca, cert, key, servername, rejectUnauthorized } = options;
  if (isGiven(servername) && typeof servername !== "string") {
    throw invalidArgument(`${field}.servername must be a string`);
  }
  if (isGiven(rejectUnauthorized) && typeof rejectUnauthorized !== "boolean") {
    throw invalidArgument(`${field}.rejectUnauthorized must be a boolean`);
  }
  return {
    ...(isGiven(ca) && { ca: [ca].flat().map((part) => pem(`${field}.ca`, part)) }),
    ...(isGiven(cert) && { cert: pem(`${field}.cert`, cert) }),
    ...(isGiven(key) && { key: pem(`${field}.key`, key) }),
    ...(servername && { servername }),
    ...(isGiven(rejectUnauthorized) && { rejectUnauthorized }),
  };
}

/** @param {unknown} value */
function isGiven(value) {
  return value !== undefined && value !== null;
}

/**
 * @param {string} name
 * @param {any} value
 * @returns {string}
 */
function pem(name, value) {
  if (typeof value === "string") return value;
  if (value instanceof Uint8Array) return Buffer.from(value).toString();
  if (Array.isArray(value) && value.length === 1) return pem(name, value[0]);
  throw invalidArgument(`${name} must be PEM, as a string or a Buffer`);
}
