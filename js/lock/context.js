// The argument of fn, which is also the base of what hold() returns.

import { HeldSeveral } from "./several.js";

/** @typedef {import("./held.js").Held} Held */

/**
 * The part that one lock and several locks have in common. The methods do not depend on `this`. The getters
 * are on the prototype, because own getters would cost more than the rest of the call.
 */
class HeldContext {
  #held;

  /** @param {Held | HeldSeveral} held */
  constructor(held) {
    this.#held = held;
    this.isHeld = (/** @type {number | undefined} */ forMs) => held.isHeld(forMs);
    this.throwIfLost = () => held.throwIfLost();
    this.extend = (/** @type {number | undefined} */ ttlMs) => held.extend(ttlMs);
  }

  /** The latest expiry known, and of several locks the earliest. */
  get expiresAtMs() {
    return this.#held.expiresAtMs;
  }

  get signal() {
    return this.#held.signal;
  }
}

class LockContext extends HeldContext {
  /** @param {Held} held */
  constructor(held) {
    super(held);
    this.lockId = held.lockId;
    this.fence = held.fence;
    if (held.slot !== undefined) this.slot = held.slot;
  }
}

class SeveralContext extends HeldContext {
  /**
   * @param {HeldSeveral} held
   * @param {readonly string[]} keys as the caller wrote them
   */
  constructor(held, keys) {
    super(held);
    this.fences = byKey(held, keys, ({ fence }) => fence);
    this.lockIds = byKey(held, keys, ({ lockId }) => lockId);
    if (held.locks.some(({ slot }) => slot !== undefined)) {
      this.slots = byKey(held, keys, ({ slot }) => slot);
    }
  }
}

/**
 * Returns an object with a fact of each lock, by the keys as the caller wrote them.
 * @template T
 * @param {HeldSeveral} held
 * @param {readonly string[]} keys
 * @param {(lock: Held) => T} fact
 * @returns {Record<string, T>}
 */
function byKey(held, keys, fact) {
  const locks = new Map(held.locks.map((lock) => [lock.key, lock]));
  const known = keys.flatMap((key) => {
    const lock = locks.get(key.normalize());
    return lock === undefined ? [] : [/** @type {[string, T]} */ ([key, fact(lock)])];
  });
  // Unlike an assignment, this gives the object a property of its own for the key "__proto__".
  return Object.fromEntries(known);
}

/**
 * Returns the argument of fn: the context of one lock or of several.
 * @param {Held | HeldSeveral} held
 * @param {import("./config.js").LockPlan} plan
 */
export function contextOf(held, { keys }) {
  if (held instanceof HeldSeveral) return new SeveralContext(held, keys ?? []);
  return new LockContext(held);
}
