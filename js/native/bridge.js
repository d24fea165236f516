// Connects JavaScript to the native side: pending operations, their replies, and what keeps the process
// alive.
//
// An operation returns its reply, a string, at once, or the number under which the reply will come. All
// replies that are ready arrive together in one call of `onReplies`.

import { clearInterval, setInterval } from "node:timers";
import { addon } from "./addon.js";
import { LONGEST_TIMER_MS } from "../base/config.js";
import { aborted, offAbort, onAbort } from "../base/signal.js";
import { onMessage } from "./messages.js";
import { YES } from "./replies.js";

/** @typedef {import("./binding.js").NativeBackend} NativeObject */
/** @typedef {NativeObject & ReturnType<NativeObject["calls"]>} NativeBackend */
/** @typedef {(reply: string) => void} Settle */

/** Operations that a caller awaits. While there are any, the process stays alive.
 * @type {Map<number, Settle>} */
const pending = new Map();

/** Callbacks for events of a hold or an alarm. They do not keep the process alive.
 * @type {Map<number, Settle>} */
const listeners = new Map();

const INTERIM = "~".charCodeAt(0);

const ignore = () => {};

/** A timer that only keeps the process and this context alive while a caller waits. It is cleared
 * afterwards, because a timer keeps its context alive, and Jest has a context for each test file.
 * @type {NodeJS.Timeout | undefined} */
let keepAlive;

function keepProcessAlive() {
  // This is Node's own timer, because test environments that simulate a browser replace the global one.
  keepAlive ??= setInterval(ignore, LONGEST_TIMER_MS);
}

function letProcessEnd() {
  if (keepAlive === undefined) return;
  clearInterval(keepAlive);
  keepAlive = undefined;
}

/** @type {import("./binding.js").Bridge | undefined} */
let bridge;

/** The memory in which the program confirms that it has received a lock. Its cells are the number of ids that
 * follow, the id of the lock that the last call returned, and the ids.
 * @type {Float64Array | undefined} */
let receipts;
const COUNT = 0;
const RETURNED = 1;
const FIRST = 2;

export function theBridge() {
  if (bridge === undefined) {
    bridge = new (addon().Bridge)(onReplies);
    receipts = new Float64Array(bridge.receipts());
  }
  return bridge;
}

/**
 * Confirms that the program has received the lock in this reply. Until then, the native side releases
 * the lock if the thread ends, which can happen at any moment.
 * @param {number} id
 */
export function confirm(id) {
  // If no cell is left, the native side sees from the count that ids are missing.
  if (receipts !== undefined) receipts[FIRST + receipts[COUNT]++] = id;
}

/**
 * Returns the id with which to confirm a lock that a call has just returned, or 0 if it needs none.
 * @returns {number}
 */
export function returnedId() {
  if (receipts === undefined) return 0;
  const id = receipts[RETURNED];
  receipts[RETURNED] = 0;
  return id;
}

const resolved = Promise.resolve();

/**
 * Confirms a lock that an async function is about to return. This happens just before its caller continues,
 * and only after the callers of earlier locks of the same batch have continued.
 * @param {number} id
 */
export function confirmOnReturn(id) {
  resolved.then(() => confirm(id));
}

/** Whether a call to the native side may have left replies. They must be taken before its caller waits. */
let untaken = false;

/** @param {Array<number | string>} batch */
function onReplies(...batch) {
  /** @type {typeof batch | undefined} */
  let others;
  for (let i = 0; i < batch.length; i += 2) {
    const id = /** @type {number} */ (batch[i]);
    const reply = /** @type {string} */ (batch[i + 1]);
    if (!deliver(id, reply)) (others ??= []).push(id, reply);
  }
  if (pending.size === 0) letProcessEnd();
  // This comes last, because it may run code of the user. If that aborted an operation whose reply is in
  // this batch, the native side could no longer undo it, and the reply would not have arrived yet.
  if (others !== undefined) notifyListeners(others);
}

/**
 * @param {number} id
 * @param {string} reply
 * @returns {boolean} whether a caller waits for it
 */
function deliver(id, reply) {
  const settle = pending.get(id);
  if (settle === undefined) return false;
  if (reply.charCodeAt(0) === INTERIM) {
    pending.set(id, ignore);
    settle(reply.slice(1));
  } else {
    pending.delete(id);
    settle(reply);
  }
  return true;
}

/** @param {Array<number | string>} batch */
function notifyListeners(batch) {
  for (let i = 0; i < batch.length; i += 2) {
    const id = /** @type {number} */ (batch[i]);
    const message = /** @type {string} */ (batch[i + 1]);
    if (id === 0) onMessage(message, answers);
    else listeners.get(id)?.(message);
  }
}

/** Passes an answer to the native side, and takes the replies that follow from it. */
const answers = {
  answer: (
    /** @type {number} */ question,
    /** @type {boolean} */ ok,
    /** @type {string} */ json,
  ) => {
    tellTime();
    theBridge().answer(question, ok, json);
    takeReady();
  },
  fire: (/** @type {number} */ timer) => {
    tellTime();
    theBridge().fire(timer);
    takeReady();
  },
};

/** Tells the native side the time of JavaScript's clocks. */
export function tellTime() {
  theBridge().setTime(Date.now(), performance.now());
}

function takeReady() {
  untaken = false;
  theBridge().take();
}

/** Takes the replies that a call has left: when its caller starts to wait, or else in the next microtask. */
export function takeSoon() {
  if (!untaken) resolved.then(() => untaken && takeReady());
  untaken = true;
}

/**
 * Calls `settle` with the reply that comes under this id. The process stays alive until then.
 * @param {number} id
 * @param {Settle} settle
 */
function expect(id, settle) {
  keepProcessAlive();
  pending.set(id, settle);
  if (untaken) takeReady();
}

/** Returns whether an operation waits for its reply, which the reply to another one may carry. */
export function isAwaited() {
  return pending.size > 0;
}

/**
 * Delivers the reply to another operation if this reply carries one: `1id,reply`.
 * @param {string} reply
 */
export function deliverCarried(reply) {
  if (reply.length === 1 || reply.charCodeAt(0) !== YES) return;
  const comma = reply.indexOf(",");
  onReplies(Number(reply.slice(1, comma)), reply.slice(comma + 1));
}

/** The last id that `stayAlive` used. Its ids are negative, because those of the native side are positive. */
let lastStayId = 0;

/**
 * Keeps the process alive until the function that it returns is called.
 * @returns {() => void}
 */
export function stayAlive() {
  lastStayId -= 1;
  const id = lastStayId;
  expect(id, ignore);
  return () => {
    pending.delete(id);
    if (pending.size === 0) letProcessEnd();
  };
}

/**
 * Returns the reply, or waits for it if it is not there yet. Rejects if the signal is aborted first.
 * @param {NativeBackend} native
 * @param {string | number} reply
 * @param {AbortSignal | undefined} signal
 * @param {{ key?: string, lockId?: string }} context
 * @returns {string | Promise<string>}
 */
export function answer(native, reply, signal, context) {
  // This is not an async function, because that would cost extra turns of the microtask queue.
  if (typeof reply === "string") return reply;
  if (signal === undefined) return settled(reply);
  return settledUnlessAborted(native, reply, signal, context);
}

/**
 * @param {NativeBackend} native
 * @param {number} id
 * @param {AbortSignal} signal
 * @param {{ key?: string, lockId?: string }} context
 * @returns {Promise<string>}
 */
async function settledUnlessAborted(native, id, signal, context) {
  const reply = await settledOrAborted(native, id, signal);
  if (typeof reply === "string") return reply;
  throw aborted("Operation aborted by signal", signal, context);
}

/**
 * Returns the reply to a pending operation.
 * @param {number} id
 * @returns {Promise<string>}
 */
export function settled(id) {
  return new Promise((resolve) => expect(id, resolve));
}

/**
 * Returns the reply to a pending operation, or the signal if that is aborted first. The operation is then
 * cancelled, which undoes an acquire, and its reply is ignored.
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
      unlisten();
      if (pending.has(id)) pending.set(id, ignore);
      native.cancel(id);
      if (untaken) takeReady();
    };
    const abort = () => {
      abandon();
      resolve(signal.aborted || second === undefined ? signal : second);
    };
    try {
      onAbort(signal, abort);
      if (second !== undefined) onAbort(second, abort);
    } catch (error) {
      expect(id, ignore);
      abandon();
      reject(error);
      return;
    }
    expect(id, (reply) => {
      unlisten();
      resolve(reply);
    });
  });
}

/**
 * Calls `settle` for each event that the native side reports under this number, until `unlisten`.
 * @param {number} id
 * @param {Settle} settle
 */
export function listen(id, settle) {
  listeners.set(id, settle);
}

/** @param {number} id */
export function unlisten(id) {
  listeners.delete(id);
}
