// A user's client as the transport of the Redis backend: it runs the scripts of the native side and
// returns the replies.

import { addon } from "../../native/addon.js";
import { register } from "../../native/questions.js";

/** @import { LockErrorCode } from "../../../index.js" */
/** @typedef {import("./clients.js").KnownClient} KnownClient */
/** @typedef {{ code: string, sha: string, keys: string[], args: string[] }} ScriptCall */

const REPLY_NAMES = ["ReplyError", "ErrorReply", "SimpleError", "BlobError"];
const SEE_CAUSE = "Its own error is context.cause";

/**
 * Explains error codes of the system, in the same words as the backend's own connections.
 * @type {Record<string, string>}
 */
const REASONS = {
  ECONNREFUSED: "connection refused",
  ECONNRESET: "the connection was closed",
  EPIPE: "the connection was closed",
  ENOTFOUND: "host not found",
  EAI_AGAIN: "host not found",
  EHOSTUNREACH: "the network has no route to the server",
  ENETUNREACH: "the network has no route to the server",
  ENOENT: "there is no such socket file",
  EACCES: "permission denied",
  EPERM: "permission denied",
  DEPTH_ZERO_SELF_SIGNED_CERT: "the server's certificate is not trusted",
  SELF_SIGNED_CERT_IN_CHAIN: "the server's certificate is not trusted",
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: "the server's certificate is not trusted",
  CERT_HAS_EXPIRED: "the server's certificate has expired",
  ERR_TLS_CERT_ALTNAME_INVALID: "the server's certificate is for another name",
  ERR_SSL_WRONG_VERSION_NUMBER: "this is not a TLS port",
};

/**
 * The functions that make a client run a script: by its text and, if the client can, by its hash.
 * @typedef {object} Ways
 * @property {(code: string, keys: string[], args: string[]) => any} byText
 * @property {((sha: string, keys: string[], args: string[]) => any) | undefined} byHash
 */

/**
 * Registers the client. Returns the number under which the native side asks it.
 * @param {KnownClient} known
 * @returns {number}
 */
export function registerClient(known) {
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

  return register({
    answer: async (call) => ({ reply: plain(await run(call)) }),
    describe,
    // Clients attach the command with its arguments to their errors. These are keys and lockIds.
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
    // Any other object is only known to have eval().
    byHash:
      kind !== "eval" && typeof hashed === "function"
        ? (sha, keys, args) => hashed.call(client, sha, ...rest(keys, args))
        : undefined,
  };
}

/**
 * Sends a command with the function that Upstash's client uses itself. Its eval() parses every text in a
 * reply as JSON if it can, so a name in quotes would lose them.
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
  if (result === undefined) throw new TypeError("The answer of Upstash contains no result");
  return result;
}

/**
 * Converts a reply to types that JSON has.
 * @param {any} reply
 * @returns {unknown}
 */
function plain(reply) {
  if (typeof reply === "bigint") return Number(reply);
  if (reply instanceof Uint8Array) return Buffer.from(reply).toString();
  return Array.isArray(reply) ? reply.map(plain) : reply;
}

/**
 * Returns whether the error is the server's reply. If so, the request had no effect.
 * @param {any} error
 */
function isReply(error) {
  if (REPLY_NAMES.includes(error?.name) || REPLY_NAMES.includes(error?.constructor?.name)) {
    return true;
  }
  // Wrappers and mocks throw other errors, with a message such as `WRONGTYPE Operation against a key…`.
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
    return ["NetworkTimeout", `The Redis client timed out. ${SEE_CAUSE}`];
  }
  const away = /connect|closed|offline|socket|fetch failed|MaxRetries|RootNodes|Slots/i;
  // The error may also have a code of the system, such as ECONNREFUSED or EPIPE.
  if (away.test(text) || /\bE[A-Z]{4,}\b/.test(text) || reasonCode(error) !== "") {
    const reason = REASONS[reasonCode(error)];
    const why = reason === undefined ? "" : `: ${reason}`;
    return ["ServiceUnavailable", `The Redis client has no connection${why}. ${SEE_CAUSE}`];
  }
  return ["Internal", `The Redis client failed. ${SEE_CAUSE}`];
}

/**
 * Returns the system's code of the error, or of an error that it wraps. Empty if there is none.
 * @param {any} error
 * @returns {string}
 */
function reasonCode(error) {
  const errors = [error, error?.cause, error?.errors?.[0], error?.cause?.errors?.[0]];
  return errors.map((each) => each?.code).find((code) => Object.hasOwn(REASONS, code)) ?? "";
}
