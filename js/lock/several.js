// Several locks that are held together: losing one loses all.

/** @import { ReleaseResult } from "../../index.js" */
/** @typedef {import("../native/engine.js").Engine} Engine */
/** @typedef {import("./held.js").Held} Held */

export class HeldSeveral {
  #locks;
  /** @type {AbortSignal | undefined} */
  #signal;
  /** The lock whose release failed, if any.
   * @type {Held | undefined} */
  #failed;

  /** @param {readonly [Held, ...Held[]]} locks in the order of their keys */
  constructor(locks) {
    this.#locks = locks;
    /** Keeps a custom backend alive: see `Held`. */
    this.backend = locks[0].backend;
  }

  get locks() {
    return this.#locks;
  }

  /** The lock to name in a report of a failed release. */
  get #named() {
    return this.#failed ?? this.#locks[0];
  }

  get key() {
    return this.#named.key;
  }

  get lockId() {
    return this.#named.lockId;
  }

  get expiresAtMs() {
    return Math.min(...this.#locks.map((held) => held.expiresAtMs));
  }

  get signal() {
    return (this.#signal ??= AbortSignal.any(this.#locks.map((held) => held.signal)));
  }

  /**
   * @param {Engine} engine
   * @param {string} key
   */
  isOf(engine, key) {
    return this.#locks.some((held) => held.isOf(engine, key));
  }

  get isEnded() {
    return this.#locks.every((held) => held.isEnded);
  }

  /** @param {number} [forMs] */
  isHeld(forMs) {
    return this.#locks.every((held) => held.isHeld(forMs));
  }

  lost() {
    for (const held of this.#locks) {
      const lost = held.lost();
      if (lost !== undefined) return lost;
    }
    return undefined;
  }

  throwIfLost() {
    for (const held of this.#locks) held.throwIfLost();
  }

  /** @param {number} [ttlMs] */
  async extend(ttlMs) {
    const results = await Promise.all(this.#locks.map((held) => held.extend(ttlMs)));
    const expiries = [];
    for (const result of results) {
      if (!result.ok) return result;
      expiries.push(result.expiresAtMs);
    }
    return { ok: /** @type {const} */ (true), expiresAtMs: Math.min(...expiries) };
  }

  /**
   * Releases all locks, even if the release of one of them fails.
   * @returns {Promise<ReleaseResult>}
   */
  async end() {
    const endings = await Promise.allSettled(this.#locks.map(async (held) => held.end()));
    /** @type {ReleaseResult} */
    let result = { ok: true };
    for (const [index, ending] of endings.entries()) {
      if (ending.status === "rejected") {
        this.#failed = this.#locks[index];
        throw ending.reason;
      }
      if (!ending.value.ok) result = ending.value;
    }
    return result;
  }
}
