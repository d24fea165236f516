// A client that JavaScript has as the transport of the Redis backend: it runs the scripts that the
// native side makes, and hands back what came.

import { addon } from "../../native/addon.js";
import { appoint } from "../../native/questions.js";

/** @import { LockErrorCode } from "../../../index.js" */
/** @typedef {import("./clients.js").KnownClient} KnownClient */
/** @typedef {{ code: string, sha: string, keys: string[], args: string[] }} ScriptCall */

const REPLY_NAMES = ["ReplyError", "ErrorReply", "SimpleError", "BlobError"];

/**
 * The number under which the native side asks the client.
 * @param {KnownClient} known
 * @returns {number}
 */
export function appointClient({ kind, client }) {
  const nodeRedis = kind.startsWith("node-redis");
  const byHash = nodeRedis ? client.evalSha : client.evalsha;
  // Of any other object only eval() is known.
  const hashed = kind !== "eval" && typeof byHash === "function" ? byHash : undefined;

  /** @param {ScriptCall} call */
  async function run({ code, sha, keys, args }) {
    const rest = nodeRedis ? [{ keys, arguments: args }] : [keys.length, ...keys, ...args];
    if (hashed !== undefined) {
      try {
        return await hashed.call(client, sha, ...rest);
      } catch (error) {
        const text = String(/** @type {any} */ (error)?.message);
        if (!isReply(error) || !text.startsWith("NOSCRIPT")) throw error;
      }
    }
    return await client.eval(code, ...rest);
  }

  return appoint({
    answer: async (call) => ({ reply: plain(await run(call)) }),
    describe,
    // Clients attach the command with its arguments, and these are keys and lockIds.
    isSecret: true,
  });
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
  const away = /connect|closed|offline|socket|MaxRetries|RootNodes|Slots/i;
  // Or a code of the system: ECONNREFUSED, EPIPE and the like.
  if (away.test(text) || /\bE[A-Z]{4,}\b/.test(text)) {
    return ["ServiceUnavailable", "The Redis client has no connection"];
  }
  return ["Internal", "The Redis client failed"];
}
