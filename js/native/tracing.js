// Tracing channels of node:diagnostics_channel, for tools that have no reference to the backend.
// Nothing is computed while nobody subscribes. Messages carry hashes, never a key or a lockId.

import { tracingChannel } from "node:diagnostics_channel";
import { LockError } from "../base/errors.js";
import { hashOf } from "./keys.js";

/** @import { LockTrace } from "../../index.js" */
/** @import { Share } from "../base/sharing.js" */
/** @typedef {"acquire" | "release" | "extend" | "hold"} Kind */

/** @typedef {{ backend?: string | undefined, name?: string | undefined } & Share} Facts */

/** @param {Kind} kind */
const channel = (kind) => /** @type {any} */ (tracingChannel(`syncguard:${kind}`));

const channels = {
  acquire: channel("acquire"),
  release: channel("release"),
  extend: channel("extend"),
  hold: channel("hold"),
};

/**
 * Returns whether the channel has a subscriber.
 * @param {Kind} kind
 * @returns {boolean}
 */
export function isTraced(kind) {
  return channels[kind].hasSubscribers;
}

/** One operation, or the time for which a lock is held, from its start to its end. */
class Trace {
  /**
   * @param {any} channel
   * @param {LockTrace} message
   */
  constructor(channel, message) {
    this.channel = channel;
    this.message = message;
    this.startedAt = performance.now();
    channel.start.publish(message);
    channel.end.publish(message);
  }

  /**
   * Records an error. The operation may continue.
   * @param {any} error
   */
  fail(error) {
    const { message, channel } = this;
    if (typeof error?.code === "string") message.code = error.code;
    // Without the context, which contains the key and the lockId.
    message.error =
      error instanceof LockError
        ? new LockError(error.code, error.message)
        : new LockError("Internal", "An operation of the backend failed");
    channel.error.publish(message);
  }

  /**
   * Ends the trace. Only the first call counts.
   * @param {boolean} ok
   * @param {string} [lockId]
   * @param {object} [facts]
   */
  end(ok, lockId, facts) {
    const { message, channel } = this;
    if (message.result !== undefined) return;
    if (facts !== undefined) assignKnown(message, facts);
    message.result = ok ? "ok" : "fail";
    if (lockId !== undefined) message.lockIdHash ??= hashOf(lockId);
    message.durationMs = performance.now() - this.startedAt;
    channel.asyncStart.publish(message);
    channel.asyncEnd.publish(message);
  }
}

/**
 * Starts a trace. Returns `undefined` if nobody subscribed.
 * @param {Kind} kind
 * @param {string | undefined} key
 * @param {string | undefined} lockId
 * @param {Facts} facts
 */
export function startTrace(kind, key, lockId, facts) {
  if (!isTraced(kind)) return undefined;
  /** @type {LockTrace} */
  const message = {};
  assignKnown(message, facts);
  if (key !== undefined) message.keyHash = hashOf(key);
  if (lockId !== undefined) message.lockIdHash = hashOf(lockId);
  return new Trace(channels[kind], message);
}

/**
 * @param {LockTrace} message
 * @param {object} facts
 */
function assignKnown(message, facts) {
  const known = Object.entries(facts).filter(([, value]) => value !== undefined);
  Object.assign(message, Object.fromEntries(known));
}

/**
 * Runs `work` in a trace and returns its result.
 * @template {{ ok: boolean, lockId?: string, slot?: number | undefined }} T
 * @param {Kind} kind
 * @param {string | undefined} key
 * @param {string | undefined} lockId
 * @param {Facts} facts
 * @param {() => Promise<T>} work
 * @returns {Promise<T>}
 */
export async function traced(kind, key, lockId, facts, work) {
  const trace = startTrace(kind, key, lockId, facts);
  try {
    const result = await work();
    trace?.end(result.ok, result.lockId, { slot: result.slot });
    return result;
  } catch (error) {
    trace?.fail(error);
    trace?.end(false);
    throw error;
  }
}
