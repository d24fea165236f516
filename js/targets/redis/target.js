// Translates a target of createRedisBackend() to a configuration or a client.

import { explain, invalidArgument } from "../../base/errors.js";
import { isOptions, readBoth, readOptions } from "../shared.js";
import { recognizeClient, settingsOfClient } from "./clients.js";
import { checkBackendOptions, KNOWN, nativeConfig } from "./options.js";
import { readUrl } from "./url.js";

/** @typedef {import("./options.js").RedisSettings} RedisSettings */

const DEFAULT_URL = "redis://127.0.0.1:6379";

const EXPECTED =
  "The Redis target must be a URL, an options object, an ioredis, node-redis or Upstash client, " +
  "an object with an eval() method, or nothing";

/** The kinds of clients that can only be used as the transport. */
const NOT_NATIVE = ["eval", "upstash"];

/**
 * Returns the configuration of a native backend, or the client through which to send the scripts.
 * @param {any} target
 * @param {any} options
 * @returns {{ client?: import("./clients.js").KnownClient, config: any, hooks: any,
 *   askCredentials?: import("./options.js").RedisSettings["askCredentials"] }}
 */
export function readTarget(target, options) {
  const client = recognizeClient(target);
  if (client !== undefined) {
    const hooks = readOptions(options, KNOWN.options);
    const backend = checkBackendOptions(hooks);
    const { transport = NOT_NATIVE.includes(client.kind) ? "client" : "native" } = hooks;
    if (transport === "client") {
      return { client, config: backend, hooks };
    }
    const { askCredentials, ...settings } = settingsOfClient(client);
    return { config: { ...nativeConfig(settings), ...backend }, hooks, askCredentials };
  }

  const given = readBoth(target, options, KNOWN);
  const { settings, inUrl } = readPlain(target, given.connection);
  const hooks = { ...inUrl, ...given.options };
  const backend = checkBackendOptions(hooks);
  if (hooks.transport === "client") {
    throw invalidArgument(
      'transport: "client" has no client to use: pass a client as the target, or leave transport out',
    );
  }
  return { config: { ...nativeConfig(settings), ...backend }, hooks };
}

/**
 * Reads the settings from a URL or from the fields of an options object, and the backend's options that
 * a URL can contain.
 * @param {any} target
 * @param {Record<string, any>} fields
 * @returns {{ settings: RedisSettings, inUrl: Record<string, any> }}
 */
function readPlain(target, fields) {
  const defaultUrl = process.env.REDIS_URL || DEFAULT_URL;
  if (target === undefined || target === null) return split(readUrl(defaultUrl), {});
  if (typeof target === "string" || target instanceof URL) {
    return split(readUrl(String(target)), {});
  }
  if (!isOptions(target)) throw invalidArgument(EXPECTED + explain(target));
  const isIdentified = KNOWN.identifying.some(
    (name) => fields[name] !== undefined && fields[name] !== null,
  );
  const { url = isIdentified ? undefined : defaultUrl, ...rest } = fields;
  return split(url === undefined ? {} : readUrl(String(url)), rest);
}

/**
 * @param {Record<string, any>} fromUrl
 * @param {Record<string, any>} fields which take precedence
 */
function split(fromUrl, fields) {
  /** @type {RedisSettings} */
  const settings = {};
  /** @type {Record<string, any>} */
  const inUrl = {};
  for (const [name, value] of Object.entries(fromUrl)) {
    (KNOWN.options.includes(name) ? inUrl : settings)[name] = value;
  }
  return { settings: { ...settings, ...fields }, inUrl };
}
