// The meeting point with the native side: pending operations, what keeps the process alive, and
// what the native side asks of JavaScript.
//
// An operation answers with a string at once or with the number under which its answer will come.
// All answers that are ready arrive together in one call of `onReplies`.

import { clearInterval, setInterval } from "node:timers";
import { addon } from "./addon.js";
import { LONGEST_TIMER_MS } from "../base/config.js";
import { replyError } from "../base/errors.js";
import { offAbort, onAbort } from "../base/signal.js";
import { forget } from "../base/thrown.js";
import { ask, unregister } from "./questions.js";
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

/** Timers of the native side, for backends that use JavaScript's time.
 * @type {Map<number, ReturnType<typeof setTimeout>>} */
const timers = new Map();

const INTERIM = "~".charCodeAt(0);

const ignore = () => {};

/** A timer that keeps the process and this context alive while a caller waits; it does nothing when it
 * fires. It is cleared afterwards, because a timer keeps its context alive, and Jest has a context for each
 * test file.
 * @type {NodeJS.Timeout | undefined} */
let keepAlive;

function stay() {
  // Node's own timer, because test environments that simulate a browser replace the global one.
  keepAlive ??= setInterval(ignore, LONGEST_TIMER_MS);
}

function mayLeave() {
  if (keepAlive === undefined) return;
  clearInterval(keepAlive);
  keepAlive = undefined;
}

/** @type {import("./binding.js").Bridge | undefined} */
let bridge;

/** Where the program confirms that it has a lock: how many ids follow, the id of the lock that the last
 * call returned, then ids.
 * @type {Float64Array | undefined} */
let receipts;
const COUNT = 0;
const RETURNED = 1;
const FIRST = 2;

function theBridge() {
  if (bridge === undefined) {
    bridge = new (addon().Bridge)(onReplies);
    receipts = new Float64Array(bridge.receipts());
  }
  return bridge;
}

/**
 * Confirms that the program has received the lock of this answer. Until then, the native side releases
 * the lock if the thread ends, which can happen at any moment.
 * @param {number} id
 */
export function confirm(id) {
  // If there is no room left, the native side notices from the count that ids are missing.
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
 * Confirms a lock that an async function is about to return: just before its caller continues, and not
 * before the callers of other locks of the same batch.
 * @param {number} id
 */
export function confirmOnReturn(id) {
  resolved.then(() => confirm(id));
}

/** Whether the last call of the native side left something to be taken at once. */
let untaken = false;

/** @param {Array<number | string>} batch */
function onReplies(...batch) {
  onBatch(batch);
}

/** @param {Array<number | string>} batch */
function onBatch(batch) {
  /** @type {typeof batch | undefined} */
  let others;
  for (let i = 0; i < batch.length; i += 2) {
    const id = /** @type {number} */ (batch[i]);
    const reply = /** @type {string} */ (batch[i + 1]);
    if (!deliver(id, reply)) (others ??= []).push(id, reply);
  }
  if (pending.size === 0) mayLeave();
  // Last, as this may run code of the user: an abort there would find that an answer of this batch
  // has left the native side, which could not undo it, and has not arrived.
  if (others !== undefined) tell(others);
}

/**
 * @param {number} id
 * @param {string} reply
 * @returns {boolean} whether somebody waits for it
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
function tell(batch) {
  for (let i = 0; i < batch.length; i += 2) {
    const id = /** @type {number} */ (batch[i]);
    const said = /** @type {string} */ (batch[i + 1]);
    if (id === 0) onMessage(said.charAt(0), said.slice(1));
    else listeners.get(id)?.(said);
  }
}

/**
 * @param {string} kind
 * @param {string} text
 */
function onMessage(kind, text) {
  switch (kind) {
    case "W":
      console.warn(`[SyncGuard] ${text}`);
      break;
    case "Q":
      ask(text, answer);
      break;
    case "T": {
      const [id, ms] = text.split(",").map(Number);
      setTimer(id, ms);
      break;
    }
    case "C":
      clearTimeout(timers.get(Number(text)));
      timers.delete(Number(text));
      break;
    case "D":
      unregister(Number(text));
      break;
    case "F":
      forget(Number(text));
      break;
  }
}

/**
 * The global timer functions, looked up on each call because a test may have replaced them.
 * @param {number} id
 * @param {number} ms
 */
function setTimer(id, ms) {
  const timer = setTimeout(
    () => {
      if (ms > LONGEST_TIMER_MS) return setTimer(id, ms - LONGEST_TIMER_MS);
      timers.delete(id);
      tellTime();
      theBridge().fire(id);
      takeReady();
    },
    Math.min(ms, LONGEST_TIMER_MS),
  );
  // The timer does not keep the process alive; a caller that waits does.
  timer.unref?.();
  timers.set(id, timer);
}

/**
 * @param {number} question
 * @param {boolean} ok
 * @param {string} json
 */
function answer(question, ok, json) {
  tellTime();
  theBridge().answer(question, ok, json);
  takeReady();
}

function tellTime() {
  theBridge().setTime(Date.now(), performance.now());
}

function takeReady() {
  untaken = false;
  for (let batch = theBridge().take(); batch.length > 0; batch = theBridge().take()) {
    onBatch(batch);
  }
}

/**
 * The methods of a native backend that asks JavaScript, or lives in its time: what a call leaves to
 * be done is done before the caller goes on to wait.
 * @param {NativeBackend} native
 * @returns {NativeBackend}
 */
function servedHere(native) {
  /** @type {any} */
  const served = {};
  const methods = Object.getOwnPropertyNames(Object.getPrototypeOf(native));
  for (const name of [...methods, ...Object.keys(native)]) {
    const method = /** @type {any} */ (native)[name];
    if (name === "constructor" || typeof method !== "function") continue;
    served[name] = (/** @type {any[]} */ ...args) => {
      tellTime();
      const reply = method.apply(native, args);
      // As soon as the caller waits; if it does not, a moment later.
      if (!untaken) Promise.resolve().then(() => untaken && takeReady());
      untaken = true;
      return reply;
    };
  }
  return served;
}

/**
 * @param {number} id
 * @param {Settle} settle
 */
function expect(id, settle) {
  stay();
  pending.set(id, settle);
  if (untaken) takeReady();
}

/** Whether an operation waits for a reply that another one may bring along. */
export function isAwaited() {
  return pending.size > 0;
}

/**
 * Delivers the reply for another operation that a reply may carry: `1id,reply`.
 * @param {string} reply
 */
export function takeAlong(reply) {
  if (reply.length === 1 || reply.charCodeAt(0) !== YES) return;
  const comma = reply.indexOf(",");
  onBatch([Number(reply.slice(1, comma)), reply.slice(comma + 1)]);
}

/** Below those of the native side. */
let lastStay = 0;

/**
 * Keeps the process alive until the function that it returns is called.
 * @returns {() => void}
 */
export function stayAlive() {
  lastStay -= 1;
  const id = lastStay;
  expect(id, ignore);
  return () => {
    pending.delete(id);
    if (pending.size === 0) mayLeave();
  };
}

/**
 * Returns the answer to a pending operation.
 * @param {number} id
 * @returns {Promise<string>}
 */
export function settled(id) {
  return new Promise((resolve) => expect(id, resolve));
}

/**
 * Returns the answer to a pending operation, or the signal if that is aborted first. The operation is
 * then cancelled (an acquire undoes itself) and its answer is ignored.
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
 * Calls `settle` with every message of the native side under this number, until `unlisten`.
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

/**
 * @param {NativeObject | string} native or why there is none
 * @returns {NativeBackend}
 */
function opened(native) {
  if (typeof native === "string") throw replyError(native);
  return Object.assign(native, native.calls());
}

/**
 * @param {string} kind
 * @param {object} config
 * @param {number} [target] the number under which a client of the user is asked
 * @param {string} [label] what its locks are stored with
 * @returns {NativeBackend}
 */
export function openNative(kind, config, target = 0, label) {
  tellTime();
  const native = opened(addon().open(theBridge(), kind, JSON.stringify(config), target, label));
  return native.isServedHere() ? servedHere(native) : native;
}

/**
 * Creates the engine over a backend written in JavaScript, which is asked as `target`.
 * @param {number} target
 * @param {boolean} canWatch
 * @returns {NativeBackend}
 */
export function openNativeOwn(target, canWatch) {
  return servedHere(opened(addon().openOwn(theBridge(), target, canWatch)));
}
