// Checks the options of a Redis backend. They are checked here, so that no message of a lower layer quotes a
// value.

import { invalidArgument } from "../../base/errors.js";
import { checkTimeouts, checkTypes, noSettings, SHARED_OPTIONS } from "../shared.js";
import { readTls } from "../tls.js";
import { readUrl } from "./url.js";

/**
 * The given settings of a connection to Redis. Their names are those of ioredis.
 * @typedef {Record<string, any>} RedisSettings
 */

/** The options that can be passed in one object. */
export const KNOWN = {
  kind: "Redis",
  create: "createRedisBackend",
  defaults: "REDIS_URL, or else redis://127.0.0.1:6379",
  connection: [
    ...["url", "host", "port", "path", "family", "db", "username", "password", "tls"],
    ...["connectionName", "sentinels", "name", "sentinelUsername", "sentinelPassword"],
    ...["sentinelTLS", "cluster", "natMap"],
  ],
  /** If none of them is given, REDIS_URL says which server is meant. */
  identifying: ["url", "host", "port", "path", "sentinels", "cluster"],
  options: [...SHARED_OPTIONS, "keyPrefix", "cleanupInIsLocked", "transport"],
  noSettings: () =>
    noSettings(
      "Redis",
      "pass connection options, a URL, or an object with an eval() method instead",
    ),
};

const TLS_REMEDY = 'leave it out, or use transport: "client" with a client';

/** @param {Record<string, any>} options */
export function checkBackendOptions(options) {
  const { keyPrefix, cleanupInIsLocked, connectTimeoutMs, operationTimeoutMs, transport } = options;
  text("keyPrefix", keyPrefix);
  checkTypes(options, "boolean", "cleanupInIsLocked");
  checkTimeouts(options);
  if (transport !== undefined && transport !== "native" && transport !== "client") {
    throw invalidArgument('transport must be "native" or "client"');
  }
  return { keyPrefix, cleanupInIsLocked, connectTimeoutMs, operationTimeoutMs };
}

/**
 * Returns the configuration that the native side reads.
 * @param {RedisSettings} settings
 */
export function nativeConfig(settings) {
  const { family, tls, connectionName, clientKeyPrefix } = settings;
  const deployment = readDeployment(settings);
  const first = deployment.kind === "cluster" ? settings.cluster.map(nodeSettings)[0] : {};
  return {
    deployment,
    login: {
      ...login(settings.username ?? first.username, settings.password ?? first.password),
      db: number("db", settings.db, 0, 0xffff_ffff) ?? 0,
      clientName: text("connectionName", connectionName),
    },
    tls: tlsConfig(tls ?? first.tls),
    // In Node.js, 0 means either version.
    family: number("family", family, 0, 6) || undefined,
    clientKeyPrefix: text("clientKeyPrefix", clientKeyPrefix) ?? "",
  };
}

/** @param {RedisSettings} settings */
function readDeployment({ host, port, path, sentinels, cluster, natMap, ...more }) {
  const some = [host ?? port, path, sentinels, cluster].filter(
    (way) => way !== undefined && way !== null,
  );
  if (some.length > 1) {
    throw invalidArgument(
      "The Redis options name more than one deployment: pass either a host and port, a path, sentinels or cluster nodes",
    );
  }
  if (sentinels !== undefined && sentinels !== null) {
    if (typeof more.name !== "string" || more.name === "") {
      throw invalidArgument(
        "The Redis options have sentinels but no name of the master group: set name",
      );
    }
    return {
      kind: "sentinel",
      sentinels: readNodes("sentinels", sentinels, 26379),
      name: more.name,
      login: login(more.sentinelUsername, more.sentinelPassword),
      tls: tlsConfig(more.sentinelTLS),
      natMap: readNatMap(natMap),
    };
  }
  if (cluster !== undefined && cluster !== null) {
    return {
      kind: "cluster",
      nodes: readNodes("cluster", cluster, 6379),
      natMap: readNatMap(natMap),
    };
  }
  if (path !== undefined && path !== null) {
    if (typeof path !== "string" || path === "") throw invalidArgument("path must be a string");
    return { kind: "server", node: { path } };
  }
  return { kind: "server", node: readNode({ host, port }, 6379) };
}

/**
 * @param {string} name
 * @param {any} nodes
 * @param {number} port
 */
function readNodes(name, nodes, port) {
  if (!Array.isArray(nodes) || nodes.length === 0) {
    throw invalidArgument(`${name} must be an array of at least one { host, port }`);
  }
  return nodes.map((node) => readNode(nodeSettings(node), port));
}

/**
 * Reads the settings of a node, which can be a URL, `host:port`, a port or an object.
 * @param {any} node
 * @returns {RedisSettings}
 */
function nodeSettings(node) {
  if (typeof node === "number") return { port: node };
  if (typeof node === "string") return readUrl(/^\w+:\/\//.test(node) ? node : `redis://${node}`);
  if (typeof node === "object" && node !== null) return node;
  throw invalidArgument("A Redis node must be { host, port }, a URL or host:port");
}

/**
 * @param {RedisSettings} node
 * @param {number} defaultPort
 */
function readNode({ host, port }, defaultPort) {
  const named = text("host", host);
  if (named === "") throw invalidArgument("host must not be empty");
  // Text is accepted, as in a URL.
  const numeric = typeof port === "string" && /^\d+$/.test(port) ? Number(port) : port;
  return {
    host: named ?? "127.0.0.1",
    port: number("port", numeric, 1, 0xffff) ?? defaultPort,
  };
}

/** @param {any} natMap */
function readNatMap(natMap) {
  if (natMap === undefined || natMap === null) return {};
  if (typeof natMap !== "object") {
    throw invalidArgument(
      'natMap is a function, which a native connection cannot use: pass an object, or use transport: "client"',
    );
  }
  return Object.fromEntries(
    Object.entries(natMap).map(([address, node]) => [address, readNode(node ?? {}, 6379)]),
  );
}

/**
 * @param {any} tls
 * @returns {import("../tls.js").TlsConfig | undefined}
 */
function tlsConfig(tls) {
  if (tls === undefined || tls === null || tls === false) return undefined;
  if (tls === true) return {};
  if (typeof tls !== "object") throw invalidArgument("tls must be true or an object");
  return readTls("tls", tls, TLS_REMEDY);
}

/**
 * @param {any} username
 * @param {any} password
 */
function login(username, password) {
  return { username: text("username", username), password: text("password", password) };
}

/**
 * @param {string} name
 * @param {any} value
 * @returns {string | undefined}
 */
function text(name, value) {
  if (value === undefined || value === null) return undefined;
  if (typeof value !== "string") throw invalidArgument(`${name} must be a string`);
  return value;
}

/**
 * @param {string} name
 * @param {any} value
 * @param {number} least
 * @param {number} most
 * @returns {number | undefined}
 */
function number(name, value, least, most) {
  if (value === undefined || value === null) return undefined;
  if (!Number.isInteger(value) || value < least || value > most) {
    throw invalidArgument(`${name} must be an integer from ${least} to ${most}`);
  }
  return value;
}
