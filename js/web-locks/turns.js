// The order of callbacks. The standard has one queue for all names: of two requests that are granted at
// once, the callback of the earlier one is called first. A store may answer them in another order.

import { clearTimeout, setImmediate, setTimeout } from "node:timers";

/** How long a callback waits at most for the answers to earlier requests of other names. */
const LONGEST_DELAY_MS = 100;

export class Turns {
  /** @type {Set<Turn>} in the order of the requests, without those that are over */
  #open = new Set();

  /** Returns the next turn. Must be called once for each request, in their order. */
  take() {
    const turn = new Turn(() => this.#advance());
    this.#open.add(turn);
    return turn;
  }

  #advance() {
    for (const turn of this.#open) {
      if (!turn.isOver) return;
      this.#open.delete(turn);
      turn.flush();
    }
  }
}

/** The turn of one request. It is over when the store has answered the request's first attempt. */
export class Turn {
  isOver = false;
  #isFlushed = false;
  /** @type {(() => void)[]} */
  #tasks = [];
  /** @type {NodeJS.Timeout | undefined} */
  #timer;
  #onEnd;

  /** @param {() => void} onEnd */
  constructor(onEnd) {
    this.#onEnd = onEnd;
  }

  /**
   * Runs a task of the event loop once the turns of all earlier requests are over.
   * @param {() => void} task must not throw
   */
  post(task) {
    if (this.#isFlushed) setImmediate(task);
    else this.#tasks.push(task);
  }

  end() {
    if (this.isOver) return;
    this.isOver = true;
    this.#onEnd();
    if (!this.#isFlushed) this.#timer = setTimeout(() => this.flush(), LONGEST_DELAY_MS);
  }

  /** Runs the tasks, in tasks of the event loop. */
  flush() {
    clearTimeout(this.#timer);
    this.#isFlushed = true;
    for (const task of this.#tasks.splice(0)) setImmediate(task);
  }
}
