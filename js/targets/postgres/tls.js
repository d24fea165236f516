// Node's TLS options, as far as they can be taken over.

import { invalidArgument } from "../../base/errors.js";

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
 * @param {any} ssl
 * @returns {TlsConfig}
 */
export function readTls(ssl) {
  for (const [name, value] of Object.entries(ssl)) {
    if (value !== undefined && !UNDERSTOOD.includes(name)) {
      throw invalidArgument(
        `ssl.${name} is not supported: use ${UNDERSTOOD.join(", ")}, or sslmode in a URL`,
      );
    }
  }
  // pg hides the key: it is not among the entries.
  const { ca, cert, key, servername, rejectUnauthorized } = ssl;
  return {
    ...(ca !== undefined && { ca: [ca].flat().map((part) => text("ca", part)) }),
    ...(cert !== undefined && { cert: text("cert", cert) }),
    ...(key !== undefined && { key: text("key", key) }),
    ...(servername !== undefined && { servername: text("servername", servername) }),
    rejectUnauthorized: rejectUnauthorized !== false,
  };
}

/**
 * @param {string} name
 * @param {unknown} value
 */
function text(name, value) {
  if (typeof value === "string" || Buffer.isBuffer(value)) return String(value);
  throw invalidArgument(`ssl.${name} must be PEM text`);
}
