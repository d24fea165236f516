// A lock of a native backend: its release, its extension, and the result of acquire() with the methods of
// a handle.

import { BAD_TTL, invalidArgument, LockError, RELEASED } from "../base/errors.js";
import { Disposal } from "../base/handle.js";
import { checkSignal } from "../base/signal.js";
import { answer, listen, unlisten } from "./bridge.js";
import { readExtended, readReleased } from "./replies.js";
import { isTraced, traced } from "./tracing.js";

/** @import { BackendHooks } from "../../index.js" */
/** @typedef {import("./bridge.js").NativeBackend} NativeBackend */

/**
 * The backend on which a lock was acquired.
 * @typedef {object} Origin
 * @property {NativeBackend} native
 * @property {BackendHooks} hooks
 * @property {import("./tracing.js").Facts} name in traces
 */

const { asyncDispose } = Symbol;

/**
 * @param {NativeBackend} native
 * @param {string} lockId
 * @param {string | null} key wakes a waiter of this process, if given
 * @param {AbortSignal} [signal]
 */
export async function releaseLock(native, lockId, key, signal) {
  if (signal !== undefined) checkSignal(signal);
  let reply = native.release(lockId, key);
  if (typeof reply !== "string") reply = await answer(native, reply, signal, { lockId });
  return readReleased(reply, { lockId });
}

/**
 * @param {NativeBackend} native
 * @param {string} lockId
 * @param {number} ttlMs
 * @param {AbortSignal} [signal]
 * @param {(validUntil: number) => void} [onValid]
 */
export async function extendLock(native, lockId, ttlMs, signal, onValid) {
  if (typeof ttlMs !== "number") throw invalidArgument(BAD_TTL);
  if (signal !== undefined) checkSignal(signal);
  let reply = native.extend(lockId, ttlMs);
  if (typeof reply !== "string") reply = await answer(native, reply, signal, { lockId });
  return readExtended(reply, { lockId }, onValid);
}

/** The state behind a handle, which releases its lock and knows until when it is certainly held. */
class Granted extends Disposal {
  /**
   * @param {Origin} origin
   * @param {string} lockId
   * @param {string} validUntil
   * @param {string} key
   */
  constructor(origin, lockId, validUntil, key) {
    super(lockId, key, origin.hooks);
    this.native = origin.native;
    this.name = origin.name;
    /** The time until which the lock is certainly held, on the native side's clock. Parsed on first use.
     * @type {string | number} */
    this.validUntil = validUntil;
    /** @type {AbortController | undefined} */
    this.controller = undefined;
    this.alarm = 0;
  }

  /** @param {AbortSignal} [signal] */
  releaseLock(signal) {
    if (this.alarm !== 0) this.cancelAlarm();
    const { native, lockId, key } = this;
    if (!isTraced("release")) return releaseLock(native, lockId, key, signal);
    return traced("release", key, lockId, this.name, () =>
      releaseLock(native, lockId, key, signal),
    );
  }

  /**
   * @param {number} ttlMs
   * @param {AbortSignal | undefined} signal
   */
  extend(ttlMs, signal) {
    const { lockId, key } = this;
    if (!isTraced("extend")) return this.extendLock(ttlMs, signal);
    return traced("extend", key, lockId, this.name, () => this.extendLock(ttlMs, signal));
  }

  /**
   * @param {number} ttlMs
   * @param {AbortSignal | undefined} signal
   */
  extendLock(ttlMs, signal) {
    return extendLock(this.native, this.lockId, ttlMs, signal, (validUntil) => {
      this.validUntil = validUntil;
      if (this.controller !== undefined) {
        this.cancelAlarm();
        this.watch(this.controller);
      }
    });
  }

  /** @param {number} forMs */
  isHeld(forMs) {
    const left = Number(this.validUntil) - this.native.now();
    return this.released === undefined && left > forMs;
  }

  throwIfLost() {
    if (!this.isHeld(0)) throw this.lost();
  }

  lost() {
    return new LockError(
      "LockLost",
      this.released === undefined
        ? "The lock expired: another holder may have it now. Use a longer ttlMs, or extend it in time"
        : RELEASED,
    );
  }

  get signal() {
    if (this.controller === undefined) {
      this.controller = new AbortController();
      this.watch(this.controller);
    }
    return this.controller.signal;
  }

  /**
   * Aborts the controller when the lock's time is over.
   * @param {AbortController} controller
   */
  watch(controller) {
    if (this.released !== undefined) return;
    if (!this.isHeld(0)) return controller.abort(this.lost());
    this.alarm = this.native.alarm(Number(this.validUntil));
    listen(this.alarm, () => {
      unlisten(this.alarm);
      this.watch(controller);
    });
  }

  cancelAlarm() {
    unlisten(this.alarm);
    this.native.cancel(this.alarm);
  }
}

/**
 * The result of an acquire() that was granted. Its methods are own properties and do not depend on `this`,
 * so it can be destructured or spread. A spread does not copy `signal`, which is created on first access:
 * an own getter would cost more than the rest of the call.
 */
export class GrantedHandle {
  #granted;

  /**
   * @param {Origin} origin
   * @param {import("./replies.js").Grant} grant
   * @param {string} key
   */
  constructor(origin, { lockId, expiresAtMs, fence, slot, rest }, key) {
    const granted = new Granted(origin, lockId, rest, key);
    this.#granted = granted;
    this.ok = /** @type {const} */ (true);
    this.lockId = lockId;
    this.expiresAtMs = expiresAtMs;
    this.fence = fence;
    if (slot !== undefined) this.slot = slot;
    this.release = (/** @type {AbortSignal | undefined} */ signal) => granted.release(signal);
    this.extend = (/** @type {number} */ ttlMs, /** @type {AbortSignal | undefined} */ signal) =>
      granted.extend(ttlMs, signal);
    this.isHeld = (forMs = 0) => granted.isHeld(forMs);
    this.throwIfLost = () => granted.throwIfLost();
    /** @type {any} */ (this)[asyncDispose] = () => granted.dispose();
  }

  get signal() {
    return this.#granted.signal;
  }
}
