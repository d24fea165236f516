// The Redis backend over a client that JavaScript has: the same scripts, sent through its eval.

import { createHash } from "node:crypto";
import { unwrap } from "../../native/bridge.js";
import { readHooks } from "../../base/config.js";
import { FENCE_THRESHOLDS } from "../../base/constants.js";
import { BAD_TTL, invalidArgument, LockError, unreadableOptions } from "../../base/errors.js";
import { logFenceWarning } from "../../base/fence.js";
import { decorateAcquireResult, rememberHooks } from "../../lock/handle.js";
import { generateLockId, normalizeAndValidateKey, validateLockId } from "../../base/keys.js";
import { redisIndexKey, redisKeys, redisScripts } from "../../native/addon.js";
import { clientError, isReply, unexpectedReply } from "./errors.js";
import {
  attachRawData,
  mapRedisScriptResult,
  mapToMutationResult,
  sanitizeLockInfo,
} from "../../base/results.js";
import { aborted, checkSignal, offAbort, onAbort } from "../../base/signal.js";

/** @typedef {import("./clients.js").KnownClient} KnownClient */
/** @typedef {{ code: string, sha: string }} Script */

const DEFAULT_TIMEOUT_MS = 5000;
const MAX_TTL_MS = 100 * 366 * 24 * 60 * 60 * 1000;

/** How long the undoing of a lost acquire may keep the process alive. */
const UNDO_MS = 10_000;
const UNDO_FIRST_DELAY_MS = 50;
const UNDO_MAX_DELAY_MS = 2000;

/** @type {Record<string, Script> | undefined} */
let scripts;

function allScripts() {
  scripts ??= Object.fromEntries(
    Object.entries(JSON.parse(redisScripts())).map(([name, code]) => [
      name,
      { code: String(code), sha: createHash("sha1").update(String(code)).digest("hex") },
    ]),
  );
  return scripts;
}

/** Sends scripts through a client, the way that client wants them. */
class Transport {
  /**
   * @param {KnownClient} known
   * @param {number} timeoutMs
   */
  constructor({ kind, client }, timeoutMs) {
    this.client = client;
    this.timeoutMs = timeoutMs;
    this.nodeRedis = kind.startsWith("node-redis");
    this.cluster = kind.endsWith("-cluster");
    const byHash = this.nodeRedis ? client.evalSha : client.evalsha;
    // Of any other object only eval() is known.
    this.byHash = kind !== "eval" && typeof byHash === "function" ? byHash : undefined;
  }

  /**
   * @param {string} name
   * @param {string[]} keys
   * @param {string[]} args
   * @param {AbortSignal} [signal]
   * @returns {Promise<any>}
   */
  run(name, keys, args, signal) {
    const script = allScripts()[name];
    return bounded(this.#send(script, keys, args), this.timeoutMs, signal);
  }

  /**
   * @param {Script} script
   * @param {string[]} keys
   * @param {string[]} args
   */
  async #send({ code, sha }, keys, args) {
    const rest = this.nodeRedis ? [{ keys, arguments: args }] : [keys.length, ...keys, ...args];
    if (this.byHash !== undefined) {
      try {
        return await this.byHash.call(this.client, sha, ...rest);
      } catch (error) {
        const text = String(/** @type {any} */ (error)?.message);
        if (!isReply(error) || !text.startsWith("NOSCRIPT")) throw error;
      }
    }
    return await this.client.eval(code, ...rest);
  }
}

/**
 * @template T
 * @param {Promise<T>} work
 * @param {number} timeoutMs
 * @param {AbortSignal | undefined} signal
 * @returns {Promise<T>}
 */
function bounded(work, timeoutMs, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      settle();
      const text = "The Redis client did not answer in time (operationTimeoutMs)";
      reject(new LockError("NetworkTimeout", text));
    }, timeoutMs);
    const abort = () => {
      settle();
      reject(aborted("Operation aborted by signal", /** @type {AbortSignal} */ (signal)));
    };
    const settle = () => {
      clearTimeout(timer);
      if (signal !== undefined) offAbort(signal, abort);
    };
    try {
      if (signal !== undefined) onAbort(signal, abort);
    } catch (error) {
      settle();
      reject(error);
    }
    work.then(
      (value) => {
        settle();
        resolve(value);
      },
      (error) => {
        settle();
        reject(error);
      },
    );
  });
}

/**
 * @param {KnownClient} known
 * @param {{ keyPrefix?: string, cleanupInIsLocked?: boolean, operationTimeoutMs?: number }} config
 * @param {any} options
 * @param {any} capabilities
 */
export function createEvalBackend(known, config, options, capabilities) {
  const { keyPrefix = "syncguard", cleanupInIsLocked = false, operationTimeoutMs } = config;
  const hooks = readHooks(options);
  const transport = new Transport(known, operationTimeoutMs ?? DEFAULT_TIMEOUT_MS);
  const { cluster } = transport;
  /** @type {(key: string) => string[]} */
  const keysOf = (key) => JSON.parse(unwrap(redisKeys(keyPrefix, key, cluster)));
  /** @type {(lockId: string) => string} */
  const indexOf = (lockId) => unwrap(redisIndexKey(keyPrefix, lockId, cluster));
  keysOf("a prefix that cannot be used is told now");
  /** @type {Set<Promise<void>>} */
  const undoing = new Set();
  let closed = false;
  let cleaning = false;

  function checkOpen() {
    if (closed) throw invalidArgument("This backend is closed: create a new one");
  }

  /**
   * @param {string} name
   * @param {string[]} keys
   * @param {string[]} args
   * @param {AbortSignal | undefined} signal
   * @param {{ key?: string, lockId?: string }} context
   */
  async function run(name, keys, args, signal, context) {
    checkOpen();
    if (signal !== undefined) checkSignal(signal, context);
    try {
      return await transport.run(name, keys, args, signal);
    } catch (error) {
      throw clientError(error, context);
    }
  }

  /**
   * Releases what a failed acquire may have left behind.
   * @param {string} lockId
   * @param {number} ttlMs
   */
  async function undo(lockId, ttlMs) {
    const until = performance.now() + Math.min(ttlMs, UNDO_MS);
    let delayMs = UNDO_FIRST_DELAY_MS;
    // The lost request may still be on its way, so "not found" is believed only the second time.
    for (let missed = 0; missed < 2 && performance.now() < until; delayMs *= 2) {
      try {
        const reply = await transport.run("release", [indexOf(lockId)], [lockId]);
        if (mapRedisScriptResult(reply) === "succeeded") return;
        missed++;
      } catch {
        // Not yet.
      }
      await new Promise((resolve) => setTimeout(resolve, Math.min(delayMs, UNDO_MAX_DELAY_MS)));
    }
  }

  /** @param {any} opts */
  async function acquire(opts) {
    const { key: given, ttlMs, signal } = fields(opts, "acquire({ key, ttlMs })");
    const key = normalizeAndValidateKey(given);
    checkTtl(ttlMs);
    const lockId = generateLockId();
    const [lockKey, fenceKey, json] = keysOf(key);
    const keys = [lockKey, indexOf(lockId), fenceKey];
    let reply;
    try {
      reply = await run("acquire", keys, [lockId, String(ttlMs), json], signal, { key });
      if (Number(reply?.[0]) === 1) {
        const fence = String(reply[1]);
        if (fence > FENCE_THRESHOLDS.WARN) logFenceWarning(fence, key);
        const result = { ok: true, lockId, expiresAtMs: Number(reply[2]), fence };
        const { onReleaseError, disposeTimeoutMs } = hooks;
        return decorateAcquireResult(backend, result, key, onReleaseError, disposeTimeoutMs);
      }
      if (Number(reply?.[0]) !== 0) throw unexpectedReply({ key });
    } catch (error) {
      if (/** @type {any} */ (error).outcomeUnknown === true) {
        const undone = undo(lockId, ttlMs);
        undoing.add(undone);
        undone.finally(() => undoing.delete(undone));
      }
      throw error;
    }
    return decorateAcquireResult(backend, { ok: false, reason: "locked" }, key);
  }

  /** @param {any} opts */
  async function release(opts) {
    const { lockId, signal } = fields(opts, "release({ lockId })");
    validateLockId(lockId);
    const reply = await run("release", [indexOf(lockId)], [lockId], signal, { lockId });
    return mutation(reply, undefined, { lockId });
  }

  /** @param {any} opts */
  async function extend(opts) {
    const { lockId, ttlMs, signal } = fields(opts, "extend({ lockId, ttlMs })");
    validateLockId(lockId);
    checkTtl(ttlMs);
    const args = [lockId, String(ttlMs)];
    const reply = await run("extend", [indexOf(lockId)], args, signal, { lockId });
    return mutation(reply, Array.isArray(reply) ? Number(reply[1]) : undefined, { lockId });
  }

  /** @param {any} opts */
  async function isLocked(opts) {
    const { key: given, signal } = fields(opts, "isLocked({ key })");
    const key = normalizeAndValidateKey(given);
    const [lockKey] = keysOf(key);
    const reply = await run("isLocked", [lockKey], [], signal, { key });
    const stale = textOf(reply);
    if (cleanupInIsLocked && stale?.length === 22 && !cleaning) {
      cleaning = true;
      const done = () => (cleaning = false);
      transport.run("cleanup", [lockKey, indexOf(stale)], [stale]).then(done, done);
    }
    return Number(reply) === 1;
  }

  /** @param {any} opts */
  async function lookup(opts) {
    const { key: given, lockId, signal } = fields(opts, "lookup({ key }) or lookup({ lockId })");
    if ((given !== undefined) === (lockId !== undefined)) {
      throw invalidArgument("lookup() needs either a key or a lockId, and not both");
    }
    /** @type {{ key?: string, lockId?: string }} */
    const context = {};
    let stored;
    if (lockId === undefined) {
      context.key = normalizeAndValidateKey(given);
      stored = await run("lookup", [keysOf(context.key)[0]], [""], signal, context);
    } else {
      validateLockId((context.lockId = lockId));
      stored = await run("lookup", [indexOf(lockId)], [lockId], signal, context);
    }
    if (stored === null || stored === undefined) return null;
    const raw = parseStored(textOf(stored), context);
    return attachRawData(sanitizeLockInfo(raw, capabilities), raw);
  }

  async function close() {
    closed = true;
    await Promise.all(undoing);
  }

  const backend = {
    acquire,
    release,
    extend,
    isLocked,
    lookup,
    capabilities: Object.freeze({ ...capabilities }),
    close,
    [Symbol.asyncDispose]: close,
  };
  rememberHooks(backend, hooks);
  return backend;
}

/**
 * @param {any} opts
 * @param {string} what
 * @returns {any}
 */
function fields(opts, what) {
  try {
    const { key, lockId, ttlMs, signal } = opts;
    return { key, lockId, ttlMs, signal };
  } catch (cause) {
    throw unreadableOptions(what, opts, cause);
  }
}

/** @param {unknown} ttlMs */
function checkTtl(ttlMs) {
  if (!Number.isInteger(ttlMs) || Number(ttlMs) < 1 || Number(ttlMs) > MAX_TTL_MS) {
    throw invalidArgument(BAD_TTL);
  }
}

/**
 * @param {unknown} reply
 * @param {number | undefined} expiresAtMs
 * @param {{ lockId: string }} context
 */
function mutation(reply, expiresAtMs, context) {
  const observation = mapRedisScriptResult(reply);
  if (observation === "unknown") throw unexpectedReply(context);
  return mapToMutationResult(observation, expiresAtMs);
}

/** @param {unknown} reply */
function textOf(reply) {
  if (typeof reply === "string") return reply;
  return reply instanceof Uint8Array ? Buffer.from(reply).toString() : undefined;
}

/**
 * @param {string | undefined} json
 * @param {{ key?: string, lockId?: string }} context
 */
function parseStored(json, context) {
  try {
    const { key, lockId, fence, expiresAtMs, acquiredAtMs } = JSON.parse(String(json));
    if (
      [key, lockId, fence].every((value) => typeof value === "string") &&
      Number.isFinite(expiresAtMs) &&
      Number.isFinite(acquiredAtMs)
    ) {
      return { key, lockId, fence, expiresAtMs, acquiredAtMs };
    }
  } catch {
    // The same to the caller.
  }
  throw new LockError(
    "Internal",
    "What is stored under this key is not a lock: something else writes under keyPrefix",
    context,
  );
}
