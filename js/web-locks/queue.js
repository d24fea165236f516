// The requests for one name and the locks that are held on it, as the standard processes them.
//
// The standard has a "lock task queue" that takes one step after the other: a request, a release, an
// abort. Here each name has such a queue, and a step includes its attempt at the store. So the store decides
// requests in their order. If another process holds the lock, the first request waits at the store, and all
// later ones wait here.

import { notSupported } from "./arguments.js";

/** @typedef {import("./origin.js").Origin} Origin */
/** @typedef {import("./request.js").Request} Request */
/** @typedef {import("./request.js").Outcome} Outcome */

/** A lock that is held by a request of this process. */
export class Grant {
  /** Whether the lock was lost at the store. False if a request of this process stole it. */
  isLost = false;
  /** The callback's promise once it is settled. From then on the lock can no longer be stolen.
   * @type {Promise<any> | undefined} */
  settled;

  /**
   * @param {Request} request
   * @param {any} handle what hold() returned
   */
  constructor(request, handle) {
    this.request = request;
    this.handle = handle;
  }
}

export class NameQueue {
  /** @type {Request[]} */
  pending = [];
  /** @type {Set<Grant>} */
  #held = new Set();
  /** Resolves when all steps so far have been taken. */
  #lastStep = Promise.resolve();
  #steps = 0;
  #origin;
  #onUnused;

  /**
   * @param {Origin} origin
   * @param {() => void} onUnused called when nothing is left to do
   */
  constructor(origin, onUnused) {
    this.#origin = origin;
    this.#onUnused = onUnused;
  }

  /** @param {Request} request */
  add(request) {
    request.listen(() => this.#enqueue(() => this.#remove(request)));
    this.#enqueue(() => this.#arrive(request));
  }

  /** Resolves when all steps so far have been taken. */
  idle() {
    return this.#lastStep;
  }

  /** @param {string} clientId */
  abandon(clientId) {
    this.#enqueue(async () => {
      for (const request of this.pending.filter((one) => one.clientId === clientId)) {
        request.abort(new DOMException("The lock manager was closed", "AbortError"));
        await this.#remove(request);
      }
    });
  }

  /** @param {() => Promise<void>} step must not reject */
  #enqueue(step) {
    this.#steps += 1;
    this.#lastStep = this.#lastStep.then(step).then(() => {
      this.#steps -= 1;
      if (this.#steps + this.pending.length + this.#held.size === 0) this.#onUnused();
    });
  }

  /** @param {Request} request */
  async #arrive(request) {
    if (request.isAborted) {
      // The request was aborted in the same turn of the event loop, so its promise is already rejected.
    } else if (request.steal) {
      await this.#steal(request);
    } else if (request.ifAvailable) {
      await this.#takeIfAvailable(request);
    } else {
      this.pending.push(request);
      await this.#process();
    }
    request.turn.end();
  }

  /** Grants the first request, and those behind it that it admits, or lets it wait at the store. */
  async #process() {
    for (;;) {
      const [request] = this.pending;
      if (request === undefined || request.wait !== undefined || !this.#admits(request)) return;
      const outcome = await outcomeOf(this.#origin.tryHold(request));
      if (request.isAborted || outcome.handle !== null) {
        this.pending.shift();
        await this.#conclude(request, outcome);
      } else {
        this.#wait(request);
      }
    }
  }

  /**
   * Returns whether the locks that are held here admit one more. Earlier requests are not considered.
   * @param {Request} request
   */
  #admits({ mode }) {
    if (mode === "exclusive") return this.#held.size === 0;
    return [...this.#held].every(({ request }) => request.mode === "shared");
  }

  /**
   * @param {Request} request which is not pending any more
   * @param {Outcome} outcome
   */
  async #conclude(request, { handle, error }) {
    if (request.isAborted) {
      if (handle) await this.#origin.release(handle);
    } else if (handle) {
      this.#grant(request, handle);
    } else {
      request.fail(error);
    }
  }

  /** @param {Request} request */
  #wait(request) {
    const cancel = new AbortController();
    const outcome = outcomeOf(this.#origin.hold(request, cancel.signal));
    const wait = { cancel, outcome };
    request.wait = wait;
    outcome.then((result) => {
      this.#enqueue(async () => {
        // Another step may have ended the wait, and taken its outcome.
        if (request.wait !== wait) return;
        request.wait = undefined;
        this.#drop(request);
        await this.#conclude(request, result);
        await this.#process();
      });
    });
  }

  /**
   * Ends the wait of a request at the store. If the request has just acquired the lock, releases it.
   * @param {Request} request
   */
  async #stopWaiting(request) {
    const { wait } = request;
    if (wait === undefined) return;
    request.wait = undefined;
    wait.cancel.abort();
    const { handle } = await wait.outcome;
    if (handle) await this.#origin.release(handle);
  }

  /** @param {Request} request which was aborted */
  async #remove(request) {
    if (!this.#drop(request)) return;
    await this.#stopWaiting(request);
    await this.#process();
  }

  /** @param {Request} request */
  #drop(request) {
    const index = this.pending.indexOf(request);
    if (index >= 0) this.pending.splice(index, 1);
    return index >= 0;
  }

  /** @param {Request} request */
  async #takeIfAvailable(request) {
    const mayBe = this.pending.length === 0 && this.#admits(request);
    const outcome = mayBe ? await outcomeOf(this.#origin.tryHold(request)) : { handle: null };
    if (outcome.handle === null) request.turn.post(() => request.resolve(request.call(false)));
    else await this.#conclude(request, outcome);
  }

  /** @param {Request} request */
  async #steal(request) {
    const stolen = [...this.#held];
    for (const grant of stolen) {
      this.#forget(grant);
      grant.request.reject(
        new DOMException("The lock was stolen by another request", "AbortError"),
      );
    }
    await Promise.all(stolen.map(({ handle }) => this.#origin.release(handle)));
    const [next] = this.pending;
    if (next !== undefined) await this.#stopWaiting(next);
    await this.#conclude(request, await outcomeOf(this.#takeByForce(request)));
    await this.#process();
  }

  /** @param {Request} request */
  async #takeByForce(request) {
    for (;;) {
      const handle = await this.#origin.tryHold(request);
      if (handle !== null) return handle;
      if (!this.#origin.canBreak()) {
        throw notSupported(
          "The lock cannot be stolen, because this backend cannot release a lock of another process",
        );
      }
      // If another process acquires the lock in the meantime, it is stolen from that process.
      await this.#origin.breakLock(request);
    }
  }

  /**
   * @param {Request} request
   * @param {any} handle what hold() returned
   */
  #grant(request, handle) {
    const grant = new Grant(request, handle);
    this.#held.add(grant);
    this.#origin.onGrant(grant);
    const { signal } = handle;
    const onLoss = () => this.#lose(grant, signal.reason);
    if (signal.aborted) onLoss();
    else signal.addEventListener("abort", onLoss, { once: true });
    request.turn.post(() => this.#run(grant));
  }

  /**
   * Calls the callback, in a task of the event loop.
   * @param {Grant} grant
   */
  #run(grant) {
    const { request } = grant;
    if (request.isAborted) return this.#enqueue(() => this.#release(grant));
    request.unlisten();
    // The lock was lost before the callback was called, so there is nothing to protect.
    if (grant.isLost) return;
    const waiting = request.call(true);
    const onSettled = () => {
      grant.settled = waiting;
      this.#enqueue(() => this.#release(grant));
    };
    waiting.then(onSettled, onSettled);
  }

  /** @param {Grant} grant */
  async #release(grant) {
    if (this.#forget(grant)) {
      await this.#origin.release(grant.handle);
      grant.request.resolve(grant.settled);
      await this.#process();
    } else {
      // The lock was lost after the callback had settled. If it was stolen, the promise is already rejected.
      grant.request.resolve(grant.settled);
    }
  }

  /**
   * Ends a grant whose lock the store has granted to another holder, or may have.
   * @param {Grant} grant
   * @param {unknown} cause
   */
  #lose(grant, cause) {
    if (!this.#forget(grant)) return;
    grant.isLost = true;
    const { request, handle, settled } = grant;
    if (settled === undefined) {
      request.reject(new DOMException("The lock was lost", { name: "AbortError", cause }));
    }
    this.#enqueue(async () => {
      await this.#origin.release(handle);
      await this.#process();
    });
  }

  /** @param {Grant} grant */
  #forget(grant) {
    this.#origin.held.delete(grant);
    return this.#held.delete(grant);
  }
}

/**
 * @param {Promise<any>} attempt
 * @returns {Promise<Outcome>}
 */
function outcomeOf(attempt) {
  return attempt.then(
    (handle) => ({ handle }),
    (error) => ({ error }),
  );
}
