// The interface objects, LockManager and Lock, as the standard declares them.

import { randomUUID } from "node:crypto";
import { check, convert } from "./arguments.js";

/** @import { CloseOptions } from "../../index.js" */
/** @typedef {import("./origin.js").Origin} Origin */

/** Proves that this module calls a constructor. */
const OURS = Symbol("ours");

export class Lock {
  #name = "";
  #mode = "";

  constructor() {
    const [ours, name, mode] = arguments;
    if (ours !== OURS) throw illegal();
    this.#name = name;
    this.#mode = mode;
  }

  get name() {
    return this.#name;
  }

  get mode() {
    return this.#mode;
  }
}

/**
 * @param {string} name
 * @param {"shared" | "exclusive"} mode
 * @returns {Lock}
 */
export function makeLock(name, mode) {
  return Reflect.construct(Lock, [OURS, name, mode]);
}

export class LockManager {
  /** @type {Origin} */
  #origin;
  /** @type {{ clientId: string, ttlMs: number | undefined }} */
  #client;
  #isClosed = false;

  constructor() {
    const [ours, origin, ttlMs, close] = arguments;
    if (ours !== OURS) throw illegal();
    this.#origin = origin;
    this.#client = { clientId: randomUUID(), ttlMs };
    // These are not part of the standard, so they are not on the prototype.
    const closeAll = (/** @type {CloseOptions} */ options) => this.#close(close, options);
    define(this, "close", closeAll);
    define(this, Symbol.asyncDispose, () => closeAll({}));
  }

  /**
   * @param {any} _name
   * @param {any} _callback the third argument if there are options
   * @returns {Promise<any>}
   */
  request(_name, _callback) {
    try {
      if (!(#origin in this)) throw new TypeError("Illegal invocation");
      const wanted = convert(arguments);
      this.#checkOpen();
      check(wanted);
      return this.#origin.request(wanted, this.#client);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /** @returns {Promise<{ held: any[], pending: any[] }>} */
  query() {
    try {
      if (!(#origin in this)) throw new TypeError("Illegal invocation");
      this.#checkOpen();
      return this.#origin.query();
    } catch (error) {
      return Promise.reject(error);
    }
  }

  #checkOpen() {
    if (this.#isClosed) {
      throw new DOMException("This lock manager is closed: create a new one", "InvalidStateError");
    }
  }

  /**
   * @param {(options?: CloseOptions) => Promise<void>} close
   * @param {CloseOptions} [options]
   */
  async #close(close, options) {
    this.#isClosed = true;
    this.#origin.abandon(this.#client.clientId);
    await close(options);
  }
}

/**
 * @param {Origin} origin
 * @param {number | undefined} ttlMs
 * @param {(options?: CloseOptions) => Promise<void>} close
 * @returns {LockManager}
 */
export function makeLockManager(origin, ttlMs, close) {
  return Reflect.construct(LockManager, [OURS, origin, ttlMs, close]);
}

for (const { prototype } of [Lock, LockManager]) {
  const { name } = prototype.constructor;
  Object.defineProperty(prototype, Symbol.toStringTag, { value: name, configurable: true });
  for (const member of Object.getOwnPropertyNames(prototype)) {
    if (member !== "constructor") Object.defineProperty(prototype, member, { enumerable: true });
  }
}

/**
 * @param {object} owner
 * @param {string | symbol} name
 * @param {unknown} value
 */
function define(owner, name, value) {
  Object.defineProperty(owner, name, { value, writable: true, configurable: true });
}

function illegal() {
  return new TypeError("Illegal constructor");
}
