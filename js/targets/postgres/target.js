// Translates a target of createPostgresBackend() to libpq's keywords.

import { userInfo } from "node:os";
import { explain, invalidArgument } from "../../base/errors.js";
import {
  checkTimeouts,
  checkTypes,
  isCount,
  isOptions,
  readBoth,
  SHARED_OPTIONS,
} from "../shared.js";
import { isClient, settingsOfClient, unreadableClient } from "./clients.js";
import { compact, list, readPassword, withTls } from "./params.js";

/**
 * @typedef {object} PostgresConnection
 * @property {string} [url]
 * @property {Record<string, string>} [params] values that take precedence over the URL
 * @property {Record<string, string>} [defaults] values over which the URL takes precedence
 * @property {import("../tls.js").TlsConfig} [tls]
 * @property {boolean} [prepare]
 * @property {number} [poolSize]
 * @property {number} [connectTimeoutMs]
 * @property {() => Promise<import("../credentials.js").Credentials>} [askPassword]
 */

export const KNOWN = {
  kind: "PostgreSQL",
  create: "createPostgresBackend",
  defaults: "libpq's environment, PGHOST and so on, or else localhost",
  connection: [
    ...["url", "connectionString", "host", "port", "database", "user", "username", "password"],
    ...["ssl", "options", "applicationName", "targetSessionAttrs"],
  ],
  identifying: ["url", "connectionString", "host"],
  options: [
    ...[...SHARED_OPTIONS, "tableName", "fenceTableName", "cleanupInIsLocked"],
    ...["poolSize", "idleTimeoutMs", "prepare"],
  ],
  noSettings: unreadableClient,
};

/** The variables of libpq's environment, and their keywords. */
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

/**
 * Returns the configuration of the native backend, and the options that only JavaScript needs.
 * @param {any} target
 * @param {any} options
 * @returns {{ config: PostgresConnection & Record<string, unknown>, hooks: Record<string, any>,
 *   askPassword: PostgresConnection["askPassword"] }}
 */
export function readTarget(target, options) {
  const client = isClient(target) ? target : undefined;
  const { connection, options: given } = readBoth(client ? undefined : target, options, KNOWN);
  checkTypes(given, "string", "tableName", "fenceTableName");
  checkTypes(given, "boolean", "cleanupInIsLocked", "prepare");
  checkTimeouts(given, "idleTimeoutMs");
  if (given.poolSize !== undefined && !isCount(given.poolSize)) {
    throw invalidArgument("poolSize must be a positive integer");
  }
  const { onReleaseError, disposeTimeoutMs, holderLabel, releaseOnExit, ...config } = given;
  const { askPassword, ...settings } = client
    ? settingsOfClient(client)
    : readPlain(target, connection);
  return {
    askPassword,
    config: {
      ...settings,
      ...config,
      // The native configuration only says whether there is a label, which decides about a column.
      holderLabel: holderLabel !== undefined && holderLabel !== false,
    },
    hooks: { onReleaseError, disposeTimeoutMs, holderLabel, releaseOnExit },
  };
}

/**
 * @param {any} target
 * @param {Record<string, any>} connection
 * @returns {PostgresConnection}
 */
function readPlain(target, connection) {
  if (target === undefined || target === null) return { defaults: environment() };
  if (typeof target === "string" || target instanceof URL) {
    return { url: String(target), defaults: environment() };
  }
  if (isOptions(target)) return fromOptions(connection);
  throw invalidArgument(
    "The PostgreSQL target must be a URL, an options object, postgres.js' sql, a pg Pool or Client, or nothing" +
      explain(target),
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
    // The system has no name for this user id, so the options must name the user.
    return undefined;
  }
}

/**
 * @param {Record<string, any>} given
 * @returns {PostgresConnection}
 */
function fromOptions(given) {
  const { host, port, database, user, username = user, password, ssl, options } = given;
  const { applicationName, targetSessionAttrs, connectionString, url = connectionString } = given;
  const known = readPassword(password);
  return {
    ...(url === undefined ? undefined : { url: String(url) }),
    params: compact({
      host: list(host),
      port: list(port),
      dbname: database,
      user: username,
      password: known.password,
      options,
      application_name: applicationName,
      target_session_attrs: targetSessionAttrs,
      ...(typeof ssl === "string" && { sslmode: ssl }),
      ...(ssl === false && { sslmode: "disable" }),
    }),
    defaults: environment(),
    ...withTls(ssl),
    askPassword: known.askPassword,
  };
}
