// Decides when and where a process blocks its own event loop.

import { now } from "./history.mjs";

/**
 * `inside`: in the function, after the read and before it checks whether the lock is still held;
 * `unseen`: after that check, just before the write; `granted`: between the grant and the function;
 * `waiting`: while it waits for the lock.
 */
export const PLACES = ["inside", "inside", "inside", "inside", "unseen", "granted", "waiting"];

const kept = new Int32Array(new SharedArrayBuffer(4));

export class Trouble {
  #random;
  #job;
  #tell;
  #armed;
  #armAt;

  /** `tell` records an event. */
  constructor(random, job, tell) {
    this.#random = random;
    this.#job = job;
    this.#tell = tell;
    this.#plan();
  }

  #plan() {
    const { ttlMs, pauses } = this.#job;
    this.#armAt = now() + this.#random.real(...pauses.everyMs);
    this.#armed = {
      place: this.#random.pick(PLACES),
      ms: ttlMs * this.#random.real(...pauses.ttls),
    };
  }

  /** Whether the thread should be blocked at this point now. */
  isDue(place) {
    return this.#armed.place === place && now() >= this.#armAt;
  }

  /** Blocks the thread if it should be blocked at this point. */
  meet(place) {
    if (this.isDue(place)) this.keep();
  }

  keep() {
    const { place, ms } = this.#armed;
    this.#plan();
    const from = now();
    Atomics.wait(kept, 0, 0, ms);
    this.#tell("blocked", { from, to: now(), place });
  }
}
