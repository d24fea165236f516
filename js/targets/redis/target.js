// What a target of createRedisBackend() means.

import { invalidArgument } from "../../base/errors.js";
import { recognizeClient, settingsOfClient } from "./clients.js";
import { BACKEND_OPTIONS, checkBackendOptions, checkNames, nativeConfig } from "./options.js";
import { readUrl } from "./url.js";

/** @typedef {import("./options.js").RedisSettings} RedisSettings */

const DEFAULT_URL = "redis://127.0.0.1:6379";

const EXPECTED =
  "The Redis target must be a URL, an options object, an ioredis or node-redis client, " +
  "an object with an eval() method, or nothing";

/** What names a server; without any of them REDIS_URL does. */
const PLACES = ["url", "host", "port", "path", "sentinels", "cluster"];

/**
 * The configuration of a native backend, or a client to send the scripts through.
 * @param {any} target
 * @param {any} options
 * @returns {{ client?: import("./clients.js").KnownClient, config: any, hooks: any }}
 */
export function readTarget(target, options) {
  const given = options ?? {};
  if (typeof given !== "object") throw invalidArgument("The backend's options must be an object");
  checkNames(given, BACKEND_OPTIONS, "option");

  const client = recognizeClient(target);
  if (client !== undefined) {
    const backend = checkBackendOptions(given);
    if (given.transport === "client" || (client.kind === "eval" && given.transport !== "native")) {
      return { client, config: backend, hooks: given };
    }
    const config = { ...nativeConfig(settingsOfClient(client)), ...backend };
    return { config, hooks: given };
  }

  const { settings, inTarget } = readPlain(target);
  const merged = { ...inTarget, ...defined(given) };
  const backend = checkBackendOptions(merged);
  if (merged.transport === "client") {
    throw invalidArgument('transport: "client" needs a client as the target');
  }
  return { config: { ...nativeConfig(settings), ...backend }, hooks: merged };
}

/**
 * The settings in a URL or an options object, and the backend's options among them.
 * @param {any} target
 * @returns {{ settings: RedisSettings, inTarget: Record<string, any> }}
 */
function readPlain(target) {
  if (target === undefined || target === null) {
    return split(readUrl(process.env.REDIS_URL || DEFAULT_URL));
  }
  if (typeof target === "string" || target instanceof URL) return split(readUrl(String(target)));
  if (typeof target !== "object" || Array.isArray(target)) throw invalidArgument(EXPECTED);
  const placed = PLACES.some((name) => target[name] !== undefined && target[name] !== null);
  const { url = placed ? undefined : process.env.REDIS_URL || DEFAULT_URL, ...rest } = target;
  if (url === undefined) return split(rest);
  return split({ ...readUrl(String(url)), ...defined(rest) });
}

/** @param {Record<string, any>} all */
function split(all) {
  /** @type {RedisSettings} */
  const settings = {};
  /** @type {Record<string, any>} */
  const inTarget = {};
  for (const [name, value] of Object.entries(all)) {
    (BACKEND_OPTIONS.includes(name) ? inTarget : settings)[name] = value;
  }
  return { settings, inTarget };
}

/** @param {Record<string, any>} options */
function defined(options) {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
}
