// A client that JavaScript has as the transport of the Redis backend: it runs the scripts that the
// native side makes, and hands back what came.

import { addon } from "../../native/addon.js";
import { appoint } from "../../native/questions.js";

/** @import { LockErrorCode } from "../../../index.js" */
/** @typedef {import("./clients.js").KnownClient} KnownClient */
/** @typedef {{ code: string, sha: string, keys: string[], args: string[] }} ScriptCall */

const REPLY_NAMES = ["ReplyError", "ErrorReply", "SimpleError", "BlobError"];

/**
 * How a client is asked to run a script, by its text and, where it can, by its hash.
 * @typedef {object} Ways
 * @property {(code: string, keys: string[], args: string[]) => any} byText
 * @property {((sha: string, keys: string[], args: string[]) => any) | undefined} byHash
 */

/**
 * The number under which the native side asks the client.
 * @param {KnownClient} known
 * @returns {number}
 */
export function appointClient(known) {
  const { byText, byHash } = waysOf(known);

  /** @param {ScriptCall} call */
  async function run({ code, sha, keys, args }) {
    if (byHash !== undefined) {
      try {
        return await byHash(sha, keys, args);
      } catch (error) {
        const text = String(/** @type {any} */ (error)?.message);
        if (!isReply(error) || !text.startsWith("NOSCRIPT")) throw error;
      }
    }
    return await byText(code, keys, args);
  }

  return appoint({
    answer: async (call) => ({ reply: plain(await run(call)) }),
    describe,
    // Clients attach the command with its arguments, and these are keys and lockIds.
    isSecret: true,
  });
}

/**
 * @param {KnownClient} known
 * @returns {Ways}
 */
function waysOf({ kind, client }) {
  if (kind === "upstash") {
    return {
      byText: (code, keys, args) => request(client, "eval", code, keys, args),
      byHash: (sha, keys, args) => request(client, "evalsha", sha, keys, args),
    };
  }
  const nodeRedis = kind.startsWith("node-redis");
  const hashed = nodeRedis ? client.evalSha : client.evalsha;
  const rest = (/** @type {string[]} */ keys, /** @type {string[]} */ args) =>
    nodeRedis ? [{ keys, arguments: args }] : [keys.length, ...keys, ...args];
  return {
    byText: (code, keys, args) => client.eval(code, ...rest(keys, args)),
    // Of any other object only eval() is known.
    byHash:
      kind !== "eval" && typeof hashed === "function"
        ? (sha, keys, args) => hashed.call(client, sha, ...rest(keys, args))
        : undefined,
  };
}

/**
 * Upstash's eval() reads every text in a reply as JSON if it can, so that a name in quotes would
 * lose them. What it sends its commands with does not.
 * @param {any} upstash
 * @param {"eval" | "evalsha"} command
 * @param {string} script
 * @param {string[]} keys
 * @param {string[]} args
 */
async function request(upstash, command, script, keys, args) {
  const body = [command, script, keys.length, ...keys, ...args];
  const { result, error } = await upstash.client.request({ body });
  if (error) throw Object.assign(new Error(error), { name: "ReplyError" });
  if (result === undefined) throw new TypeError("The answer holds no result");
  return result;
}

/**
 * A reply in the types that JSON has.
 * @param {any} reply
 * @returns {unknown}
 */
function plain(reply) {
  if (typeof reply === "bigint") return Number(reply);
  if (reply instanceof Uint8Array) return Buffer.from(reply).toString();
  return Array.isArray(reply) ? reply.map(plain) : reply;
}

/**
 * Whether the server answered with this error: then the request had no effect.
 * @param {any} error
 */
function isReply(error) {
  if (REPLY_NAMES.includes(error?.name) || REPLY_NAMES.includes(error?.constructor?.name)) {
    return true;
  }
  // Wrappers and mocks: `WRONGTYPE Operation against a key…`
  return /^[A-Z][A-Z0-9]+ /.test(String(error?.message)) && error?.code === undefined;
}

/**
 * @param {any} error
 * @returns {{ code: LockErrorCode, message: string, outcomeUnknown: boolean }}
 */
function describe(error) {
  if (isReply(error)) {
    const { code, message } = JSON.parse(addon().redisError(String(error.message)).slice(1));
    return { code, message, outcomeUnknown: false };
  }
  const [code, message] = classify(error);
  return { code, message, outcomeUnknown: true };
}

/**
 * @param {any} error
 * @returns {[LockErrorCode, string]}
 */
function classify(error) {
  const text = `${error?.code} ${error?.name} ${error?.message}`;
  if (/time(d)?[ -]?out|ETIMEDOUT/i.test(text)) {
    return ["NetworkTimeout", "The Redis client timed out"];
  }
  const away = /connect|closed|offline|socket|fetch failed|MaxRetries|RootNodes|Slots/i;
  // Or a code of the system: ECONNREFUSED, EPIPE and the like.
  if (away.test(text) || /\bE[A-Z]{4,}\b/.test(text)) {
    return ["ServiceUnavailable", "The Redis client has no connection"];
  }
  return ["Internal", "The Redis client failed"];
}
