// The state that the lock managers of one backend share, as the documents of one origin share their locks.

import { setImmediate } from "node:timers";
import { holdWith, tryHoldWith } from "../lock/hold.js";
import { forceRelease, listLocks } from "../lock/look.js";
import { nativeBehind } from "../lock/telemetry.js";
import { keyOf, nameOf } from "./names.js";
import { NameQueue } from "./queue.js";
import { Request } from "./request.js";
import { Turns } from "./turns.js";

/** @import { LockInfo } from "../../types/web-locks.js" */
/** @typedef {import("./arguments.js").Wanted} Wanted */
/** @typedef {import("./queue.js").Grant} Grant */

/** The label of these locks in telemetry. */
const NAME = "web-locks";

/** The limits of a wait: a request waits for as long as it takes. */
const PATIENT = { timeoutMs: Infinity, maxRetries: Infinity, maxDelayMs: 1_000 };

/** @type {WeakMap<object, Origin>} */
const origins = new WeakMap();

/** @param {any} backend */
export function originOf(backend) {
  let origin = origins.get(backend);
  if (origin === undefined) origins.set(backend, (origin = new Origin(backend)));
  return origin;
}

export class Origin {
  /** The held locks, in the order in which they were granted.
   * @type {Set<Grant>} */
  held = new Set();
  /** @type {Map<string, NameQueue>} */
  #queues = new Map();
  #turns = new Turns();
  /** The lockIds of locks that are held or being released here.
   * @type {Set<string>} */
  #ownIds = new Set();
  /** One set for each query in progress, with all lockIds that were ours since the query began.
   * @type {Set<Set<string>>} */
  #queries = new Set();
  #backend;

  /** @param {any} backend */
  constructor(backend) {
    this.#backend = backend;
  }

  /**
   * @param {Wanted} wanted
   * @param {{ clientId: string, ttlMs: number | undefined }} client
   * @returns {Promise<any>}
   */
  request(wanted, client) {
    const { name } = wanted;
    const request = new Request(wanted, client, this.#turns.take());
    let queue = this.#queues.get(name);
    if (queue === undefined) {
      queue = new NameQueue(this, () => this.#queues.delete(name));
      this.#queues.set(name, queue);
    }
    queue.add(request);
    return request.promise;
  }

  /**
   * Rejects the pending requests of a manager that is closed.
   * @param {string} clientId
   */
  abandon(clientId) {
    for (const queue of this.#queues.values()) queue.abandon(clientId);
  }

  /** @returns {Promise<{ held: LockInfo[], pending: LockInfo[] }>} */
  async query() {
    await this.#settled();
    const held = [...this.held].map(({ request }) => infoOf(request));
    const pending = [...this.#queues.values()].flatMap((queue) => queue.pending.map(infoOf));
    const others = await this.#heldByOthers();
    // Resolve in a task of its own, after the tasks of the requests that were made before.
    await new Promise((resolve) => void setImmediate(resolve));
    return { held: [...held, ...others], pending };
  }

  /** Resolves when all requests, releases and aborts that have begun have been processed. */
  async #settled() {
    await Promise.all([...this.#queues.values()].map((queue) => queue.idle()));
  }

  /** @returns {Promise<LockInfo[]>} */
  async #heldByOthers() {
    if (nativeBehind(this.#backend) === undefined) return [];
    const own = new Set(this.#ownIds);
    this.#queries.add(own);
    try {
      /** @type {{ lockId: string, info: LockInfo }[]} */
      const found = [];
      for await (const lock of listLocks(this.#backend, { raw: true })) {
        const name = nameOf(lock.key);
        if (name === undefined) continue;
        const { lockId, mode = "exclusive", lockIdHash: clientId } = lock;
        found.push({ lockId, info: { name, mode, clientId } });
      }
      // The answers to some of our attempts may still be on their way.
      await this.#settled();
      return found.filter(({ lockId }) => !own.has(lockId)).map(({ info }) => info);
    } finally {
      this.#queries.delete(own);
    }
  }

  /**
   * Makes one attempt.
   * @param {Request} request
   * @returns {Promise<any>} a held lock, or `null`
   */
  tryHold(request) {
    return request.inContext(() => tryHoldWith(this.#backend, configOf(request)));
  }

  /**
   * Waits for the lock, behind holders outside of this process.
   * @param {Request} request
   * @param {AbortSignal} signal
   * @returns {Promise<any>}
   */
  hold(request, signal) {
    const config = { ...configOf(request), acquisition: { ...PATIENT, signal } };
    return request.inContext(() => holdWith(this.#backend, config));
  }

  /**
   * Ends the lock on a name, whoever holds it.
   * @param {Request} request
   */
  async breakLock({ name }) {
    await forceRelease(this.#backend, { key: keyOf(name) });
  }

  /** @returns {boolean} whether locks of others can be stolen */
  canBreak() {
    return nativeBehind(this.#backend) !== undefined;
  }

  /** @param {Grant} grant */
  onGrant(grant) {
    const { lockId } = grant.handle;
    this.held.add(grant);
    this.#ownIds.add(lockId);
    for (const own of this.#queries) own.add(lockId);
  }

  /**
   * Releases the lock of a grant. Never rejects: failures go to the backend's `onReleaseError`.
   * @param {any} handle what hold() returned
   */
  async release(handle) {
    await handle[Symbol.asyncDispose]();
    this.#ownIds.delete(handle.lockId);
  }
}

/**
 * @param {Request} request
 * @returns {any} a LockConfig
 */
function configOf({ name, mode, ttlMs }) {
  return {
    key: keyOf(name),
    autoExtend: true,
    name: NAME,
    ...(mode === "shared" && { mode }),
    ...(ttlMs !== undefined && { ttlMs }),
  };
}

/**
 * @param {Request} request
 * @returns {LockInfo}
 */
function infoOf({ name, mode, clientId }) {
  return { name, mode, clientId };
}
