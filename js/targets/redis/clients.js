// Recognises clients of other libraries and reads their connection settings.

import { invalidArgument } from "../../base/errors.js";
import { readUrl } from "./url.js";

/** @typedef {import("./options.js").RedisSettings} RedisSettings */

/**
 * @typedef {object} KnownClient
 * @property {"ioredis" | "ioredis-cluster" | "node-redis" | "node-redis-cluster" | "node-redis-other" | "upstash" | "eval"} kind
 * @property {any} client
 */

/**
 * @param {any} target
 * @returns {KnownClient | undefined}
 */
export function recognizeClient(target) {
  if ((typeof target !== "object" && typeof target !== "function") || target === null) {
    return undefined;
  }
  if (typeof target.eval !== "function") return undefined;
  return { kind: kindOf(target), client: target };
}

/**
 * Recognises a client by its shape, so that any copy and version of a library works. A mock has the
 * methods of a client but no connection: only its eval() is used, because its settings must not lead to
 * a real server.
 * @param {any} client
 * @returns {KnownClient["kind"]}
 */
function kindOf(client) {
  if (typeof client.defineCommand === "function" && typeof client.status === "string") {
    if (Array.isArray(client.startupNodes) && isObject(client.connectionPool)) {
      return "ioredis-cluster";
    }
    if (isObject(client.options) && isObject(client.connector)) return "ioredis";
  }
  if (typeof client.sendCommand === "function" && typeof client.isOpen === "boolean") {
    if (Array.isArray(client._options?.rootNodes)) return "node-redis-cluster";
    // A sentinel client or a pool does not expose its settings.
    return showsSettings(client) ? "node-redis" : "node-redis-other";
  }
  if (typeof client.createScript === "function" && typeof client.client?.request === "function") {
    return "upstash";
  }
  return "eval";
}

/**
 * Returns whether a client of node-redis shows its settings. Its plain clients have a getter for them, which
 * may return nothing.
 * @param {any} client
 */
function showsSettings(client) {
  if (!Object.hasOwn(client, "options")) return "options" in client;
  return isObject(client.options?.socket) || client.options?.url !== undefined;
}

/** @param {unknown} value */
function isObject(value) {
  return typeof value === "object" && value !== null;
}

/**
 * @param {KnownClient} known
 * @returns {RedisSettings}
 */
export function settingsOfClient({ kind, client }) {
  switch (kind) {
    case "ioredis":
      return ofIoredis(client.options);
    case "ioredis-cluster":
      return ofIoredisCluster(client.startupNodes, client.options ?? {});
    case "node-redis":
      return ofNodeRedis(client.options ?? {});
    case "node-redis-cluster":
      return ofNodeRedisCluster(client._options);
    case "node-redis-other":
      throw cannot("This kind of node-redis client", "it does not show its settings");
    case "upstash":
      throw cannot("A client of @upstash/redis", "it speaks HTTP");
    case "eval":
      throw invalidArgument(
        'transport: "native" needs a URL, connection options, or an ioredis or node-redis client',
      );
  }
}

/**
 * @param {string} what
 * @param {string} why
 */
function cannot(what, why) {
  return invalidArgument(
    `${what} cannot be used for a native connection, because ${why}: ` +
      'pass connection options or a URL instead, or use transport: "client"',
  );
}

/** @param {any} options */
function ofIoredis(options) {
  if (options.Connector) throw cannot("A custom Connector", "it is code");
  const { sentinels, path, connectionName, keyPrefix } = options;
  const common = {
    username: options.username ?? undefined,
    password: options.password ?? undefined,
    db: options.db ?? undefined,
    family: options.family || undefined,
    connectionName: connectionName ?? undefined,
    clientKeyPrefix: keyPrefix || undefined,
  };
  if (Array.isArray(sentinels)) {
    if (options.role === "slave") throw cannot('role: "slave"', "locks need the master");
    return {
      ...common,
      sentinels,
      name: options.name,
      sentinelUsername: options.sentinelUsername ?? undefined,
      sentinelPassword: options.sentinelPassword ?? undefined,
      sentinelTLS: options.sentinelTLS,
      tls: options.enableTLSForSentinelMode ? tlsOf(options.tls) : undefined,
      natMap: options.natMap ?? undefined,
    };
  }
  const place = path ? { path } : { host: options.host, port: options.port };
  return { ...common, ...place, tls: tlsOf(options.tls) };
}

/**
 * @param {any[]} startupNodes
 * @param {any} options
 */
function ofIoredisCluster(startupNodes, options) {
  const { redisOptions = {}, dnsLookup, natMap } = options;
  if (options.useSRVRecords) throw cannot("useSRVRecords", "SRV records are not looked up");
  // This is not an import, because loading node:dns takes a fifth of the time of loading everything.
  const { lookup } = process.getBuiltinModule("node:dns");
  if (dnsLookup && dnsLookup !== lookup && !keepsNames(dnsLookup)) {
    throw cannot("A custom dnsLookup", "it is code");
  }
  if (redisOptions.Connector) throw cannot("A custom Connector", "it is code");
  // ioredis takes options that are not in redisOptions from the nodes.
  const first = startupNodes.find((node) => typeof node === "object" && node !== null) ?? {};
  return {
    cluster: startupNodes,
    natMap: natMap ?? undefined,
    username: redisOptions.username ?? first.username ?? undefined,
    password: redisOptions.password ?? first.password ?? undefined,
    tls: tlsOf(redisOptions.tls ?? first.tls),
    family: redisOptions.family || undefined,
    connectionName: redisOptions.connectionName ?? undefined,
    clientKeyPrefix: options.keyPrefix || redisOptions.keyPrefix || undefined,
  };
}

/**
 * Returns whether the function is `(address, callback) => callback(null, address)`, which ioredis recommends
 * if certificates name hosts. The native connection does the same: it keeps the names of hosts.
 * @param {(address: string, callback: (error: unknown, address: string) => void) => void} dnsLookup
 */
function keepsNames(dnsLookup) {
  const probe = "name.invalid";
  /** @type {unknown} */
  let answer;
  try {
    dnsLookup(probe, (_error, address) => (answer = address));
  } catch {
    return false;
  }
  return answer === probe;
}

/**
 * Returns a function that asks a `credentialsProvider` of node-redis, for each new connection.
 * @param {any} provider
 * @returns {(() => Promise<import("../credentials.js").Credentials>) | undefined}
 */
function askProvider(provider) {
  if (provider === undefined || provider === null) return undefined;
  if (typeof provider.credentials === "function") return async () => provider.credentials();
  if (typeof provider.subscribe !== "function") {
    throw cannot("This credentialsProvider", "it has neither credentials() nor subscribe()");
  }
  // Only the current value is needed: each new connection asks again.
  const ignore = { onNext: () => {}, onError: () => {} };
  return async () => {
    const [credentials, subscription] = await provider.subscribe(ignore);
    subscription?.dispose?.();
    subscription?.[Symbol.dispose]?.();
    return credentials;
  };
}

/**
 * @param {any} options
 * @returns {RedisSettings}
 */
function ofNodeRedis(options) {
  const { url, socket = {}, username, password, database, name, keyPrefix } = options;
  const inUrl = url === undefined ? {} : readUrl(String(url));
  // node-redis turns known credentials into a provider, too.
  const known = [username, password, inUrl.username, inUrl.password];
  const isKnown = known.some((one) => one !== undefined);
  /** @type {RedisSettings} */
  const settings = {
    ...inUrl,
    ...(username === undefined ? undefined : { username }),
    ...(password === undefined ? undefined : { password }),
    ...(database === undefined ? undefined : { db: database }),
    connectionName: name ?? undefined,
    clientKeyPrefix: keyPrefix || undefined,
    ...(!isKnown && { askCredentials: askProvider(options.credentialsProvider) }),
  };
  const { path, host, port, family } = socket;
  if (path) return { ...settings, host: undefined, port: undefined, path };
  return {
    ...settings,
    host: host ?? settings.host ?? "localhost",
    port: port ?? settings.port,
    family: family || settings.family,
    tls:
      socket.tls === true || inUrl.tls === true ? tlsOf(withoutSocketOptions(socket)) : undefined,
  };
}

/** @param {any} options */
function ofNodeRedisCluster({ rootNodes, defaults = {}, nodeAddressMap }) {
  const nodes = rootNodes.map((/** @type {any} */ node) => ofNodeRedis(node));
  const common = ofNodeRedis({ ...defaults, url: undefined });
  const [first] = nodes;
  return {
    cluster: nodes.map((/** @type {RedisSettings} */ { host, port }) => ({ host, port })),
    natMap: nodeAddressMap,
    username: common.username ?? first?.username,
    password: common.password ?? first?.password,
    tls: common.tls ?? first?.tls,
    family: common.family ?? first?.family,
    connectionName: common.connectionName,
    clientKeyPrefix: common.clientKeyPrefix,
    askCredentials: common.askCredentials ?? first?.askCredentials,
  };
}

const SOCKET_OPTIONS = [
  ...["tls", "host", "port", "family", "path", "connectTimeout", "socketTimeout", "keepAlive"],
  ...["keepAliveInitialDelay", "noDelay", "reconnectStrategy"],
];

/** @param {Record<string, any>} socket */
function withoutSocketOptions(socket) {
  return Object.fromEntries(
    Object.entries(socket).filter(([name]) => !SOCKET_OPTIONS.includes(name)),
  );
}

/**
 * Reads the option as ioredis does: any truthy value enables TLS.
 * @param {any} tls
 */
function tlsOf(tls) {
  if (!tls) return undefined;
  return typeof tls === "object" ? tls : true;
}
