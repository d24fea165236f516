// The options of a Redis backend: checked here, so that no message of a lower layer quotes a value.

import { LONGEST_TIMER_MS } from "../../base/config.js";
import { invalidArgument } from "../../base/errors.js";
import { readUrl } from "./url.js";

/**
 * How to reach Redis, as far as it was said. The names are those of ioredis.
 * @typedef {Record<string, any>} RedisSettings
 */

/** Options of the backend, which may also stand among the connection options. */
export const BACKEND_OPTIONS = [
  "keyPrefix",
  "cleanupInIsLocked",
  "connectTimeoutMs",
  "operationTimeoutMs",
  "onReleaseError",
  "disposeTimeoutMs",
  "transport",
];

const SETTINGS = [
  ...["host", "port", "path", "family", "db", "username", "password", "tls", "connectionName"],
  ...["sentinels", "name", "sentinelUsername", "sentinelPassword", "sentinelTLS"],
  ...["cluster", "natMap", "clientKeyPrefix"],
];

const TLS_OPTIONS = ["ca", "cert", "key", "servername", "rejectUnauthorized"];

/**
 * A misspelt option must not be ignored.
 * @param {object} given
 * @param {readonly string[]} known
 * @param {string} what
 */
export function checkNames(given, known, what) {
  for (const [name, value] of Object.entries(given)) {
    if (!known.includes(name) && value !== undefined) {
      throw invalidArgument(`Unknown Redis ${what} "${name}": there are ${known.join(", ")}`);
    }
  }
}

/** @param {Record<string, any>} options */
export function checkBackendOptions(options) {
  const { keyPrefix, cleanupInIsLocked, connectTimeoutMs, operationTimeoutMs, transport } = options;
  text("keyPrefix", keyPrefix);
  if (cleanupInIsLocked !== undefined && typeof cleanupInIsLocked !== "boolean") {
    throw invalidArgument("cleanupInIsLocked must be a boolean");
  }
  timeout("connectTimeoutMs", connectTimeoutMs);
  timeout("operationTimeoutMs", operationTimeoutMs);
  if (transport !== undefined && transport !== "native" && transport !== "client") {
    throw invalidArgument('transport must be "native" or "client"');
  }
  return { keyPrefix, cleanupInIsLocked, connectTimeoutMs, operationTimeoutMs };
}

/**
 * What the native side reads.
 * @param {RedisSettings} settings
 */
export function nativeConfig(settings) {
  checkNames(settings, SETTINGS, "connection option");
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
    tls: readTls(tls ?? first.tls),
    // 0 is Node's way to say: either.
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
    throw invalidArgument("Give either a host and port, a path, sentinels or cluster nodes");
  }
  if (sentinels !== undefined && sentinels !== null) {
    if (typeof more.name !== "string" || more.name === "") {
      throw invalidArgument("Redis Sentinel needs the name of the master group (name)");
    }
    return {
      kind: "sentinel",
      sentinels: readNodes("sentinels", sentinels, 26379),
      name: more.name,
      login: login(more.sentinelUsername, more.sentinelPassword),
      tls: readTls(more.sentinelTLS),
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
 * The settings in a node, which may be a URL, `host:port`, a port or an object.
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
  // As in a URL: some write the number as text.
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
      'natMap cannot be taken over as a function: pass it as an object, or use transport: "client"',
    );
  }
  return Object.fromEntries(
    Object.entries(natMap).map(([address, node]) => [address, readNode(node ?? {}, 6379)]),
  );
}

/**
 * @param {any} tls
 * @returns {Record<string, any> | undefined}
 */
export function readTls(tls) {
  if (tls === undefined || tls === null || tls === false) return undefined;
  if (tls === true) return {};
  if (typeof tls !== "object") throw invalidArgument("tls must be true or an object");
  for (const [name, value] of Object.entries(tls)) {
    if (!TLS_OPTIONS.includes(name) && value !== undefined) {
      throw invalidArgument(
        `The TLS option "${name}" cannot be taken over: leave it out (there are ` +
          `${TLS_OPTIONS.join(", ")}), or use transport: "client" with a client`,
      );
    }
  }
  const { ca, cert, key, servername, rejectUnauthorized } = tls;
  if (rejectUnauthorized !== undefined && typeof rejectUnauthorized !== "boolean") {
    throw invalidArgument("tls.rejectUnauthorized must be a boolean");
  }
  return {
    ca: ca === undefined || ca === null ? [] : [ca].flat().map((one) => pem("ca", one)),
    cert: pem("cert", cert),
    key: pem("key", key),
    servername: text("tls.servername", servername) || undefined,
    rejectUnauthorized,
  };
}

/**
 * @param {string} name
 * @param {any} value
 */
function pem(name, value) {
  if (value === undefined || value === null) return undefined;
  if (typeof value === "string") return value;
  if (value instanceof Uint8Array) return Buffer.from(value).toString();
  if (Array.isArray(value) && value.length === 1) return pem(name, value[0]);
  throw invalidArgument(`tls.${name} must be PEM, as a string or a Buffer`);
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

/**
 * @param {string} name
 * @param {any} ms
 */
function timeout(name, ms) {
  if (ms !== undefined && !(Number.isInteger(ms) && ms > 0 && ms <= LONGEST_TIMER_MS)) {
    throw invalidArgument(`${name} must be a positive integer (milliseconds)`);
  }
}
