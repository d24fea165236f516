// The meeting point with the native side: pending operations, and what keeps the process alive.
//
// An operation answers with a string at once or with the number under which its answer will come.
// All answers that are ready arrive together in one call of `onBatch`.

import { setInterval } from "node:timers";
import { Bridge, open } from "./addon.js";
import { replyError } from "../base/errors.js";
import { offAbort, onAbort } from "../base/signal.js";

/** @typedef {import("./addon.js").NativeBackend} NativeBackend */
/** @typedef {(reply: string) => void} Settle */

/** Operations that somebody waits for: while there are any, the process stays alive.
 * @type {Map<number, Settle>} */
const pending = new Map();

/** Heartbeats: they end with the work they protect and keep nothing alive themselves.
 * @type {Map<number, Settle>} */
const background = new Map();

const INTERIM = "~".charCodeAt(0);
const LONGEST_TIMER_MS = 0x7fff_ffff;

// Holds the process while it is ref'd; what it does when it fires does not matter. Node's own
// timer, because test environments that imitate a browser replace the global one.
const keepAlive = setInterval(() => {}, LONGEST_TIMER_MS);
keepAlive.unref();

// Others export the functions of its event loop too, and end the process when they are called.
const isNode = process.versions.bun === undefined && process.versions.deno === undefined;

/** @type {Bridge | undefined} */
let bridge;

const ignore = () => {};

/** @param {Array<number | string>} batch */
function onBatch(batch) {
  for (let i = 0; i < batch.length; i += 2) {
    const id = /** @type {number} */ (batch[i]);
    const reply = /** @type {string} */ (batch[i + 1]);
    if (id === 0) console.warn(`[SyncGuard] ${reply}`);
    else deliver(id, reply);
  }
  if (pending.size === 0) keepAlive.unref();
}

/**
 * @param {number} id
 * @param {string} reply
 */
function deliver(id, reply) {
  const settle = pending.get(id);
  if (settle === undefined) {
    const settleBackground = background.get(id);
    background.delete(id);
    settleBackground?.(reply);
  } else if (reply.charCodeAt(0) === INTERIM) {
    pending.set(id, ignore);
    settle(reply.slice(1));
  } else {
    pending.delete(id);
    settle(reply);
  }
}

/**
 * @param {number} id
 * @param {Settle} settle
 */
function expect(id, settle) {
  if (pending.size === 0) keepAlive.ref();
  pending.set(id, settle);
}

/**
 * The answer to a pending operation.
 * @param {number} id
 * @returns {Promise<string>}
 */
export function settled(id) {
  return new Promise((resolve) => expect(id, resolve));
}

/**
 * The answer to a pending operation, or the signal that was aborted before it came. The
 * operation is then told (if it is an acquire, it undoes itself), and its answer is ignored.
 * @param {NativeBackend} native
 * @param {number} id
 * @param {AbortSignal} signal
 * @param {AbortSignal} [second]
 * @returns {Promise<string | AbortSignal>}
 */
export function settledOrAborted(native, id, signal, second) {
  return new Promise((resolve, reject) => {
    const unlisten = () => {
      offAbort(signal, abort);
      if (second !== undefined) offAbort(second, abort);
    };
    const abandon = () => {
      pending.set(id, (reply) => giveBack(native, reply));
      native.cancel(id);
    };
    const abort = () => {
      unlisten();
      abandon();
      resolve(signal.aborted || second === undefined ? signal : second);
    };
    expect(id, (reply) => {
      unlisten();
      resolve(reply);
    });
    try {
      onAbort(signal, abort);
      if (second !== undefined) onAbort(second, abort);
    } catch (error) {
      unlisten();
      abandon();
      reject(error);
    }
  });
}

/**
 * An acquire may have been granted just before it was cancelled: nobody owns that lock.
 * @param {NativeBackend} native
 * @param {string} reply
 */
function giveBack(native, reply) {
  if (!reply.startsWith("A")) return;
  const released = native.release(reply.slice(1, 23), null);
  if (typeof released === "number") expect(released, ignore);
}

/**
 * Calls `settle` with the answer to a heartbeat, without keeping the process alive for it.
 * @param {number} id
 * @param {Settle} settle
 */
export function settledInBackground(id, settle) {
  background.set(id, settle);
}

/**
 * @param {string} kind
 * @param {object} config
 * @returns {NativeBackend}
 */
export function openNative(kind, config) {
  bridge ??= new Bridge(onBatch, isNode ? (...batch) => onBatch(batch) : null);
  const opened = open(bridge, kind, JSON.stringify(config));
  if (typeof opened === "string") throw replyError(opened);
  return opened;
}

/**
 * The value of a synchronous answer `1value`; throws the error of `E{json}`.
 * @param {string} reply
 * @returns {string}
 */
export function unwrap(reply) {
  if (reply.charCodeAt(0) === 0x45) throw replyError(reply);
  return reply.slice(1);
}
