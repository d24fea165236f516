// What a single acquire of a native backend returns: the lock's data with a handle's methods.

import { LockError } from "../base/errors.js";
import { Disposal } from "../lock/handle.js";
import { extendLock, releaseLock } from "./backend.js";
import { listen, unlisten } from "./bridge.js";

/** @import { BackendHooks } from "../../index.js" */
/** @typedef {import("./addon.js").NativeBackend} NativeBackend */

const { asyncDispose } = Symbol;

/** What the handle knows of its lock: until when it is surely held. */
class Validity {
  /**
   * @param {NativeBackend} native
   * @param {number} validUntil on the native side's clock
   */
  constructor(native, validUntil) {
    this.native = native;
    this.validUntil = validUntil;
    this.released = false;
    /** @type {AbortController | undefined} */
    this.controller = undefined;
    this.alarm = 0;
  }

  /** @param {number} forMs */
  isHeld(forMs) {
    return !this.released && this.native.now() + forMs < this.validUntil;
  }

  lost() {
    return new LockError(
      "LockLost",
      this.released
        ? "The lock was released"
        : "The lock's time passed: others may hold it now. Use a longer ttlMs, or extend it",
    );
  }

  get signal() {
    if (this.controller === undefined) {
      this.controller = new AbortController();
      this.watch();
    }
    return this.controller.signal;
  }

  watch() {
    if (this.released) return;
    if (!this.isHeld(0)) return this.controller?.abort(this.lost());
    this.alarm = this.native.alarm(this.validUntil);
    listen(this.alarm, () => {
      unlisten(this.alarm);
      this.watch();
    });
  }

  unwatch() {
    if (this.alarm === 0) return;
    unlisten(this.alarm);
    this.native.cancel(this.alarm);
  }

  /** @param {number} validUntil */
  extended(validUntil) {
    const isEarlier = validUntil < this.validUntil;
    this.validUntil = validUntil;
    // An alarm that comes too early is set again; one that would come too late is set now.
    if (!isEarlier || this.controller === undefined) return;
    this.unwatch();
    this.watch();
  }

  end() {
    this.released = true;
    this.unwatch();
  }
}

/**
 * @param {NativeBackend} native
 * @param {{ lockId: string, expiresAtMs: number, fence: string, rest: string }} grant
 * @param {string} key
 * @param {BackendHooks} hooks
 */
export function grantedHandle(native, { lockId, expiresAtMs, fence, rest }, key, hooks) {
  const validity = new Validity(native, Number(rest));
  const disposal = new Disposal(
    (signal) => {
      validity.end();
      return releaseLock(native, lockId, key, signal);
    },
    lockId,
    key,
    hooks,
  );
  /** @type {any} */
  const result = {
    ok: true,
    lockId,
    expiresAtMs,
    fence,
    release: (/** @type {AbortSignal} */ signal) => disposal.release(signal),
    extend: (/** @type {number} */ ttlMs, /** @type {AbortSignal} */ signal) =>
      extendLock(native, lockId, ttlMs, signal, (validUntil) => validity.extended(validUntil)),
    isHeld: (forMs = 0) => validity.isHeld(forMs),
    throwIfLost() {
      if (!validity.isHeld(0)) throw validity.lost();
    },
    get signal() {
      return validity.signal;
    },
  };
  // Far cheaper than a computed name in the literal.
  result[asyncDispose] = () => disposal.dispose();
  return result;
}
