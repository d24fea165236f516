// What a target of createPostgresBackend() means for the connection, in libpq's keywords.

import { userInfo } from "node:os";
import { invalidArgument } from "../../base/errors.js";
import { readTls } from "./tls.js";

/**
 * @typedef {object} PostgresConnection
 * @property {string} [url]
 * @property {Record<string, string>} [params] these win over the URL
 * @property {Record<string, string>} [defaults] these lose against it
 * @property {import("./tls.js").TlsConfig} [tls]
 * @property {boolean} [prepare]
 */

/** libpq's environment. */
const ENVIRONMENT = {
  PGHOST: "host",
  PGHOSTADDR: "hostaddr",
  PGPORT: "port",
  PGDATABASE: "dbname",
  PGUSER: "user",
  PGPASSWORD: "password",
  PGOPTIONS: "options",
  PGAPPNAME: "application_name",
  PGSSLMODE: "sslmode",
  PGSSLNEGOTIATION: "sslnegotiation",
  PGSSLROOTCERT: "sslrootcert",
  PGSSLCERT: "sslcert",
  PGSSLKEY: "sslkey",
  PGCHANNELBINDING: "channel_binding",
  PGCONNECT_TIMEOUT: "connect_timeout",
  PGTARGETSESSIONATTRS: "target_session_attrs",
  PGLOADBALANCEHOSTS: "load_balance_hosts",
};

const WAY_OUT = "pass a URL or an options object to createPostgresBackend() instead";

/** @param {any} target */
function isPostgresJs(target) {
  return typeof target === "function" && typeof target.options === "object";
}

/** @param {any} target */
function isPgPool(target) {
  return typeof target?.query === "function" && typeof target.Client === "function";
}

/** @param {any} target */
function isPgClient(target) {
  return typeof target?.query === "function" && typeof target.connectionParameters === "object";
}

/** @param {any} target */
export function isClient(target) {
  return isPostgresJs(target) || isPgPool(target) || isPgClient(target);
}

/**
 * @param {any} target
 * @returns {PostgresConnection}
 */
export function readTarget(target) {
  if (target === undefined || target === null) return { defaults: environment() };
  if (typeof target === "string" || target instanceof URL) {
    return { url: String(target), defaults: environment() };
  }
  if (isPostgresJs(target)) return fromPostgresJs(target.options);
  // The pool's Client puts URL, options and environment together. It does not connect by itself.
  if (isPgPool(target)) return fromPg(new target.Client(target.options), target.options);
  if (isPgClient(target)) return fromPg(target, {});
  if (typeof target === "object" && typeof target.query !== "function") return fromOptions(target);
  throw invalidArgument(
    "The PostgreSQL target must be a URL, an options object, postgres.js' sql, a pg Pool or Client, or nothing",
  );
}

/** @returns {Record<string, string>} */
function environment() {
  /** @type {Record<string, string>} */
  const found = { fallback_application_name: "syncguard" };
  const user = ownName();
  if (user) found["user"] = user;
  for (const [variable, keyword] of Object.entries(ENVIRONMENT)) {
    const value = process.env[variable];
    if (value) found[keyword] = value;
  }
  return found;
}

function ownName() {
  try {
    return userInfo().username;
  } catch {
    // A user id without a name: then the user must be given.
    return undefined;
  }
}

/**
 * @param {any} target
 * @returns {PostgresConnection}
 */
function fromOptions(target) {
  const { host, port, database, user, username = user, password, ssl, options } = target;
  const { applicationName, targetSessionAttrs, connectionString, url = connectionString } = target;
  return {
    ...(url === undefined ? undefined : { url: String(url) }),
    params: compact({
      host: list(host),
      port: list(port),
      dbname: database,
      user: username,
      password: passwordText(password),
      options,
      application_name: applicationName,
      target_session_attrs: targetSessionAttrs,
      ...(typeof ssl === "string" && { sslmode: ssl }),
      ...(ssl === false && { sslmode: "disable" }),
    }),
    defaults: environment(),
    ...withTls(ssl),
  };
}

/**
 * postgres.js: `sql.options` is what it made of URL, options and environment.
 * @param {any} from
 * @returns {PostgresConnection}
 */
function fromPostgresJs(from) {
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
  if (options.stream) throw cannotTakeOver("a stream of its own");
  const from = client.connectionParameters;
  if (from === undefined) throw cannotTakeOver("a Client of its own");
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
 * `true` and objects, as for Node's tls.connect(); the rest is said with `sslmode`.
 * @param {any} ssl
 */
function withTls(ssl) {
  if (ssl === true) return { tls: readTls({}) };
  return typeof ssl === "object" && ssl !== null ? { tls: readTls(ssl) } : undefined;
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

/** @param {unknown} value */
function passwordText(value) {
  if (typeof value === "function") throw cannotTakeOver("a password that a function returns");
  return value;
}

/** @param {unknown} value */
function list(value) {
  return Array.isArray(value) ? value.join(",") : value;
}

/**
 * Only what is there, as text.
 * @param {Record<string, unknown>} params
 */
function compact(params) {
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
function cannotTakeOver(what) {
  return invalidArgument(
    `This PostgreSQL client has ${what}, which cannot be taken over: ${WAY_OUT}`,
  );
}
