// What a target of createRedisBackend() means.

import { invalidArgument } from "../../base/errors.js";
import { isOptions, readBoth, readOptions } from "../shared.js";
import { recognizeClient, settingsOfClient } from "./clients.js";
import { checkBackendOptions, KNOWN, nativeConfig } from "./options.js";
import { readUrl } from "./url.js";

/** @typedef {import("./options.js").RedisSettings} RedisSettings */

const DEFAULT_URL = "redis://127.0.0.1:6379";

const EXPECTED =
  "The Redis target must be a URL, an options object, an ioredis, node-redis or Upstash client, " +
  "an object with an eval() method, or nothing";

/** Clients that there is no other way with than through them. */
const NOT_NATIVE = ["eval", "upstash"];

/** What names a server; without any of them REDIS_URL does. */
const PLACES = ["url", "host", "port", "path", "sentinels", "cluster"];

/**
 * The configuration of a native backend, or a client to send the scripts through.
 * @param {any} target
 * @param {any} options
 * @returns {{ client?: import("./clients.js").KnownClient, config: any, hooks: any }}
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
    return { config: { ...nativeConfig(settingsOfClient(client)), ...backend }, hooks };
  }

  const given = readBoth(target, options, KNOWN);
  const { settings, inUrl } = readPlain(target, given.connection);
  const hooks = { ...inUrl, ...given.options };
  const backend = checkBackendOptions(hooks);
  if (hooks.transport === "client") {
    throw invalidArgument('transport: "client" needs a client as the target');
  }
  return { config: { ...nativeConfig(settings), ...backend }, hooks };
}

/**
 * The settings in a URL or among the fields of an options object, and the backend's options that
 * a URL may hold.
 * @param {any} target
 * @param {Record<string, any>} fields
 * @returns {{ settings: RedisSettings, inUrl: Record<string, any> }}
 */
function readPlain(target, fields) {
  const standard = process.env.REDIS_URL || DEFAULT_URL;
  if (target === undefined || target === null) return split(readUrl(standard), {});
  if (typeof target === "string" || target instanceof URL) {
    return split(readUrl(String(target)), {});
  }
  if (!isOptions(target)) throw invalidArgument(EXPECTED);
  const placed = PLACES.some((name) => fields[name] !== undefined && fields[name] !== null);
  const { url = placed ? undefined : standard, ...rest } = fields;
  return split(url === undefined ? {} : readUrl(String(url)), rest);
}

/**
 * @param {Record<string, any>} fromUrl
 * @param {Record<string, any>} fields these win
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
