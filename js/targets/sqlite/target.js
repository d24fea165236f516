// Translates a target of createSqliteBackend() to a path, and options that a URL can contain.

import { fileURLToPath } from "node:url";
import { explain, invalidArgument } from "../../base/errors.js";
import {
  checkTimeouts,
  checkTypes,
  isOptions,
  noSettings,
  readBoth,
  SHARED_OPTIONS,
} from "../shared.js";

/**
 * @typedef {object} SqliteTargetConfig
 * @property {string | undefined} [path]
 * @property {string | undefined} [stateDirectory]
 * @property {boolean} [allowNetworkFileSystem]
 * @property {string} [durability]
 * @property {number} [connectTimeoutMs]
 * @property {number} [operationTimeoutMs]
 */

const MALFORMED =
  "This SQLite URL cannot be read. A SQLite URL has the form sqlite:/absolute/path or sqlite:relative/path, or just sqlite: for the default file, " +
  "with ?durability=, ?allowNetworkFileSystem=true, ?connectTimeoutMs= and ?operationTimeoutMs= if need be";

export const KNOWN = {
  kind: "SQLite",
  create: "createSqliteBackend",
  defaults: "one file for all processes of this user",
  connection: ["path"],
  identifying: ["path"],
  options: [...SHARED_OPTIONS, "allowNetworkFileSystem", "durability"],
  noSettings: () => noSettings("SQLite", "pass the path of a file instead"),
};
const DURABILITIES = ["full", "normal"];

/**
 * Returns the configuration of the native backend, and the options that only JavaScript needs.
 * @param {any} target
 * @param {any} options which take precedence over those of a URL
 * @returns {{ config: SqliteTargetConfig, hooks: Record<string, any> }}
 */
export function readTarget(target, options) {
  const { connection, options: hooks } = readBoth(target, options, KNOWN);
  const inTarget = isOptions(target) ? connection : readPlain(target);
  const {
    allowNetworkFileSystem = inTarget.allowNetworkFileSystem,
    durability = inTarget.durability,
    connectTimeoutMs = inTarget.connectTimeoutMs,
    operationTimeoutMs = inTarget.operationTimeoutMs,
  } = hooks;
  const config = {
    path: inTarget.path,
    // The variable is read here, so that a backend keeps its file if the variable changes later.
    stateDirectory: inTarget.path === undefined ? stateDirectory() : undefined,
    allowNetworkFileSystem,
    durability,
    connectTimeoutMs,
    operationTimeoutMs,
  };
  checkTypes(config, "boolean", "allowNetworkFileSystem");
  if (config.path !== undefined && typeof config.path !== "string") {
    throw invalidArgument("path must be a string");
  }
  if (durability !== undefined && !DURABILITIES.includes(durability)) {
    throw invalidArgument('durability must be "full" or "normal"');
  }
  checkTimeouts(config);
  return { config, hooks };
}

/** Returns the directory of the default file, unless it is in the home directory. An empty variable counts as
 * not set. */
function stateDirectory() {
  return process.env.SYNCGUARD_STATE_DIR || undefined;
}

/**
 * @param {any} target
 * @returns {SqliteTargetConfig}
 */
function readPlain(target) {
  if (target === undefined || target === null) return {};
  if (target instanceof URL) return readUrl(target.href);
  if (typeof target === "string") {
    return /^(sqlite:|file:\/\/)/i.test(target) ? readUrl(target) : { path: target };
  }
  throw invalidArgument(
    "The SQLite target must be a path, a sqlite: or file: URL, an options object or nothing" +
      explain(target),
  );
}

/**
 * @param {string} url
 * @returns {SqliteTargetConfig}
 */
function readUrl(url) {
  // After "//" comes an absolute path or none. A host has no meaning here, and "sqlite://file" is
  // ambiguous.
  const parts = /^sqlite:(?:\/\/(?=\/|$|\?))?(?!\/\/)([^?#]*)(?:\?([^#]*))?$/i.exec(url);
  try {
    if (/^file:/i.test(url)) return { path: fileURLToPath(url) };
    if (parts !== null) {
      const path = withoutDriveSlash(decodeURIComponent(parts[1]));
      return { path: path || undefined, ...readQuery(parts[2]) };
    }
  } catch (cause) {
    throw invalidArgument(MALFORMED, { cause });
  }
  throw invalidArgument(MALFORMED);
}

/**
 * Converts `/C:/locks.db`, the form in a URL, to `C:/locks.db`.
 * @param {string} path
 */
function withoutDriveSlash(path) {
  return process.platform === "win32" ? path.replace(/^\/(?=[a-z]:)/i, "") : path;
}

/**
 * @param {string | undefined} query
 * @returns {SqliteTargetConfig}
 */
function readQuery(query) {
  /** @type {Record<string, string | number | boolean>} */
  const config = {};
  for (const [name, value] of new URLSearchParams(query)) {
    if (name === "durability") config.durability = value;
    else if (name === "allowNetworkFileSystem" && (value === "true" || value === "false")) {
      config.allowNetworkFileSystem = value === "true";
    } else if (name === "connectTimeoutMs" || name === "operationTimeoutMs") {
      config[name] = Number(value);
    } else {
      throw new TypeError("Unknown option in the query");
    }
  }
  return config;
}
