// Clients of other libraries: the connection settings that they were made with.

import { noSettings } from "../shared.js";
import { cannotTakeOver, compact, list, passwordText, WAY_OUT, withTls } from "./params.js";

/** @typedef {import("./target.js").PostgresConnection} PostgresConnection */

/**
 * By its methods, so that any copy and version of a library will do, and no mock is taken for an
 * options object.
 * @param {any} target
 */
export function isClient(target) {
  return typeof target === "function" || typeof target?.query === "function";
}

export function unreadableClient() {
  return noSettings("PostgreSQL", WAY_OUT);
}

/**
 * postgres.js' `sql` is a function; a Pool of pg has the class of its clients.
 * @param {any} client
 * @returns {PostgresConnection}
 */
export function settingsOfClient(client) {
  const { options } = client;
  if (typeof client === "function") return fromPostgresJs(options);
  return typeof client.Client === "function"
    ? fromPg(clientOf(client), options ?? {})
    : fromPg(client, {});
}

/**
 * The pool's Client puts URL, options and environment together. It does not connect by itself.
 * @param {any} pool
 */
function clientOf(pool) {
  try {
    return new pool.Client(pool.options);
  } catch {
    // No cause: one about a malformed URL quotes it, with the password.
    throw unreadableClient();
  }
}

/**
 * postgres.js: `sql.options` is what it made of URL, options and environment.
 * @param {any} from
 * @returns {PostgresConnection}
 */
function fromPostgresJs(from) {
  if (!from?.path && !Array.isArray(from?.host)) throw unreadableClient();
  if (from.socket) throw cannotTakeOver("a socket of its own");
  const { application_name, options, sslrootcert, ...settings } = from.connection ?? {};
  const where = from.path ? socket(from.path) : { host: list(from.host), port: list(from.port) };
  const { ssl } = from;
  // It does not look at the server's certificate for these.
  const unverified = ssl === "require" || ssl === "allow";
  return {
    params: compact({
      ...where,
      dbname: from.database,
      user: from.user,
      password: passwordText(from.pass),
      application_name,
      options: startupOptions(options, settings),
      target_session_attrs: from.target_session_attrs,
      sslnegotiation: from.sslnegotiation,
      sslrootcert,
      ...(unverified && { sslmode: "require" }),
      ...((ssl === "prefer" || ssl === "verify-full") && { sslmode: ssl }),
      ...(!ssl && { sslmode: "disable" }),
    }),
    prepare: from.prepare !== false,
    ...withTls(ssl),
  };
}

/**
 * pg: `client.connectionParameters` is what it made of URL, options and environment.
 * @param {any} client
 * @param {any} options
 * @returns {PostgresConnection}
 */
function fromPg(client, options) {
  const from = client.connectionParameters;
  if (!Number.isInteger(from?.port)) throw unreadableClient();
  if (options.stream) throw cannotTakeOver("a stream of its own");
  return {
    params: compact({
      host: from.host,
      port: from.port,
      dbname: from.database,
      user: from.user,
      password: passwordText(from.password),
      options: from.options,
      application_name: from.application_name ?? from.fallback_application_name,
      sslnegotiation: from.sslnegotiation,
      ...(!from.ssl && { sslmode: "disable" }),
    }),
    ...withTls(from.ssl),
  };
}

/**
 * Settings that a session starts with, as libpq's `options`.
 * @param {any} given
 * @param {Record<string, unknown>} settings
 */
function startupOptions(given, settings) {
  const escape = (/** @type {unknown} */ text) => String(text).replaceAll(/[\\ ]/g, "\\$&");
  const all = Object.entries(settings)
    .filter(([, value]) => value !== undefined && value !== null)
    .map(([name, value]) => `-c ${name}=${escape(value)}`);
  if (given) all.unshift(String(given));
  return all.length > 0 ? all.join(" ") : undefined;
}

/** @param {string} path of the socket itself; libpq wants its directory */
function socket(path) {
  const parts = /^(.*)\/\.s\.PGSQL\.(\d+)$/.exec(path);
  if (parts === null) throw cannotTakeOver("a socket with an unusual name");
  return { host: parts[1], port: parts[2] };
}
