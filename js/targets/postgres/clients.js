// Reads the connection settings of clients of other libraries.

import { noSettings } from "../shared.js";
import { unsupported, compact, list, readPassword, REMEDY, withTls } from "./params.js";

/** @typedef {import("./target.js").PostgresConnection} PostgresConnection */

/**
 * Returns whether the target is a client. It is recognised by its methods, so that any copy and version of
 * a library works, and a mock is not mistaken for an options object.
 * @param {any} target
 */
export function isClient(target) {
  return typeof target === "function" || typeof target?.query === "function";
}

export function unreadableClient() {
  return noSettings("PostgreSQL", REMEDY);
}

/**
 * Reads the settings of a client of any library: postgres.js' `sql` is a function, and a Pool of pg has the
 * class of its clients as a property.
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
 * Creates a client of the pool's class, which combines URL, options and environment. It does not
 * connect by itself.
 * @param {any} pool
 */
function clientOf(pool) {
  try {
    return new pool.Client(pool.options);
  } catch {
    // The error has no cause, because that would quote a malformed URL with its password.
    throw unreadableClient();
  }
}

/**
 * Reads the settings of postgres.js: `sql.options` combines URL, options and environment.
 * @param {any} from
 * @returns {PostgresConnection}
 */
function fromPostgresJs(from) {
  if (!from?.path && !Array.isArray(from?.host)) throw unreadableClient();
  if (from.socket) throw unsupported("a socket of its own");
  const { application_name, options, sslrootcert, ...settings } = from.connection ?? {};
  const where = from.path ? socket(from.path) : { host: list(from.host), port: list(from.port) };
  const { ssl } = from;
  const known = readPassword(from.pass, from);
  // For these modes, postgres.js does not verify the server's certificate.
  const unverified = ssl === "require" || ssl === "allow";
  return {
    params: compact({
      ...where,
      dbname: from.database,
      user: from.user,
      password: known.password,
      application_name,
      keepalives_idle: wholeSeconds(from.keep_alive),
      // The default of postgres.js, 30, is far longer than ours.
      connect_timeout: from.connect_timeout === 30 ? undefined : wholeSeconds(from.connect_timeout),
      options: startupOptions(options, settings),
      target_session_attrs: from.target_session_attrs,
      sslnegotiation: from.sslnegotiation,
      sslrootcert,
      ...(unverified && { sslmode: "require" }),
      ...((ssl === "prefer" || ssl === "verify-full") && { sslmode: ssl }),
      ...(!ssl && { sslmode: "disable" }),
    }),
    prepare: from.prepare !== false,
    poolSize: poolSize(from.max),
    askPassword: known.askPassword,
    ...withTls(ssl),
  };
}

/**
 * Reads the settings of pg: `client.connectionParameters` combines URL, options and environment.
 * @param {any} client
 * @param {any} options
 * @returns {PostgresConnection}
 */
function fromPg(client, options) {
  const from = client.connectionParameters;
  if (!Number.isInteger(from?.port)) throw unreadableClient();
  if (options.stream) throw unsupported("a stream of its own");
  const known = readPassword(from.password, client, from);
  // The option is in milliseconds, and the parameter in seconds.
  const connectTimeoutMs = Number(options.connectionTimeoutMillis);
  return {
    params: compact({
      host: from.host,
      port: from.port,
      dbname: from.database,
      user: from.user,
      password: known.password,
      options: from.options,
      application_name: from.application_name,
      fallback_application_name: from.fallback_application_name || "syncguard",
      keepalives: from.keepalives,
      keepalives_idle: wholeSeconds(from.keepalives_idle),
      connect_timeout: wholeSeconds(from.connect_timeout),
      sslnegotiation: from.sslnegotiation,
      ...(!from.ssl && { sslmode: "disable" }),
    }),
    ...withTls(from.ssl),
    poolSize: poolSize(options.max),
    ...(connectTimeoutMs >= 1 && { connectTimeoutMs: Math.floor(connectTimeoutMs) }),
    askPassword: known.askPassword,
  };
}

/**
 * Limits the size of the library's pool to the largest size of ours.
 * @param {unknown} max
 */
function poolSize(max) {
  const size = Math.floor(Number(max));
  return size >= 1 ? Math.min(size, 1000) : undefined;
}

/**
 * Returns the whole seconds. `undefined` if the value is not set, or less than a second.
 * @param {unknown} seconds
 */
function wholeSeconds(seconds) {
  const whole = Math.floor(Number(seconds));
  return whole >= 1 ? whole : undefined;
}

/**
 * Writes the initial settings of a session as libpq's `options`.
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

/** @param {string} path of the socket itself, whereas libpq wants its directory */
function socket(path) {
  const parts = /^(.*)\/\.s\.PGSQL\.(\d+)$/.exec(path);
  if (parts === null) throw unsupported("a socket that is not named .s.PGSQL.<port>");
  return { host: parts[1], port: parts[2] };
}
