// What a single acquire of a native backend returns: the lock's data with a handle's methods.

import { LockError } from "../base/errors.js";
import { Disposal } from "../lock/handle.js";
import { isTraced, traced } from "../base/tracing.js";
import { extendLock, nameOf, releaseLock } from "./backend.js";
import { listen, unlisten } from "./bridge.js";

/** @import { BackendHooks } from "../../index.js" */
/** @typedef {import("./bridge.js").NativeBackend} NativeBackend */

const { asyncDispose } = Symbol;

/** What a handle knows of its lock: how it ends, and until when it is surely held. */
class Granted extends Disposal {
  /**
   * @param {NativeBackend} native
   * @param {string} lockId
   * @param {string} validUntil
   * @param {string} key
   * @param {BackendHooks} hooks
   */
  constructor(native, lockId, validUntil, key, hooks) {
    super(lockId, key, hooks);
    this.native = native;
    /** On the native side's clock; as text until it is asked for.
     * @type {string | number} */
    this.validUntil = validUntil;
    /** @type {AbortController | undefined} */
    this.controller = undefined;
    this.alarm = 0;
  }

  /** @param {AbortSignal} [signal] */
  releaseLock(signal) {
    if (this.alarm !== 0) this.silence();
    const { native, lockId, key } = this;
    if (!isTraced("release")) return releaseLock(native, lockId, key, signal);
    return traced("release", key, lockId, nameOf(native), () =>
      releaseLock(native, lockId, key, signal),
    );
  }

  /**
   * @param {number} ttlMs
   * @param {AbortSignal | undefined} signal
   */
  extend(ttlMs, signal) {
    const { native, lockId, key } = this;
    if (!isTraced("extend")) return this.extendLock(ttlMs, signal);
    return traced("extend", key, lockId, nameOf(native), () => this.extendLock(ttlMs, signal));
  }

  /**
   * @param {number} ttlMs
   * @param {AbortSignal | undefined} signal
   */
  extendLock(ttlMs, signal) {
    return extendLock(this.native, this.lockId, ttlMs, signal, (validUntil) => {
      const isEarlier = validUntil < Number(this.validUntil);
      this.validUntil = validUntil;
      // An alarm that comes too early is set again; one that would come too late is set now.
      if (isEarlier && this.controller !== undefined) {
        this.silence();
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
        ? "The lock's time passed: others may hold it now. Use a longer ttlMs, or extend it"
        : "The lock was released",
    );
  }

  get signal() {
    if (this.controller === undefined) {
      this.controller = new AbortController();
      this.watch(this.controller);
    }
    return this.controller.signal;
  }

  /** @param {AbortController} controller */
  watch(controller) {
    if (this.released !== undefined) return;
    if (!this.isHeld(0)) return controller.abort(this.lost());
    this.alarm = this.native.alarm(Number(this.validUntil));
    listen(this.alarm, () => {
      unlisten(this.alarm);
      this.watch(controller);
    });
  }

  silence() {
    unlisten(this.alarm);
    this.native.cancel(this.alarm);
  }
}

/**
 * The result. Its methods are its own and do not depend on `this`, so it may be taken apart or
 * spread; only `signal`, which is made when it is asked for, is not copied by a spread: a getter of
 * its own would cost more than the rest of the call.
 */
export class GrantedHandle {
  #granted;

  /**
   * @param {NativeBackend} native
   * @param {{ lockId: string, expiresAtMs: number, fence: string, rest: string }} grant
   * @param {string} key
   * @param {BackendHooks} hooks
   */
  constructor(native, { lockId, expiresAtMs, fence, rest }, key, hooks) {
    const granted = new Granted(native, lockId, rest, key, hooks);
    this.#granted = granted;
    this.ok = /** @type {const} */ (true);
    this.lockId = lockId;
    this.expiresAtMs = expiresAtMs;
    this.fence = fence;
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
