// The context of a behaviour: backends to test, keys that no other test uses, and waits.

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";

/** A TTL that does not expire during a test. */
export const LONG_TTL_MS = 600_000;

/** How much coarser the clock of a store may be than ours. */
export const CLOCK_GRAIN_MS = 10;

const POLL_MS = 10;

/** Provides what a behaviour needs. Backends are `any`, because a suite checks types at run time. */
export class Context {
  /** @type {any[]} */
  #backends = [];
  #options;

  /** @param {import("./options.js").Options} options */
  constructor(options) {
    this.#options = options;
    this.ttlMs = options.ttlMs;
    this.toleranceMs = options.toleranceMs;
    this.supportsFencing = options.supportsFencing;
    this.shared = options.shared;
  }

  /** @returns {Promise<any>} another backend from `create` */
  async backend() {
    const backend = await this.#options.create();
    assert.ok(
      typeof backend === "object" && backend !== null,
      `create() must return a backend; it returned ${backend === null ? "null" : typeof backend}`,
    );
    this.#backends.push(backend);
    return backend;
  }

  /** Returns a key that no other test uses, not even in an earlier run. */
  key(label = "key") {
    return `${label}:${randomBytes(8).toString("hex")}`;
  }

  /**
   * Acquires a lock that must be granted.
   * @param {any} backend
   * @param {string} key
   */
  async acquire(backend, key, ttlMs = LONG_TTL_MS) {
    const lock = await backend.acquire({ key, ttlMs });
    assert.equal(lock?.ok, true, "acquire() of a free key must return { ok: true, … }");
    return lock;
  }

  /** Waits until a lock of `ttlMs` that is granted now has surely expired. */
  async untilExpired(ttlMs = this.ttlMs) {
    await sleep(ttlMs + this.toleranceMs + 2 * CLOCK_GRAIN_MS);
  }

  /**
   * Waits until nobody holds the key. Returns when it was last seen held, and when it was first seen free,
   * on the clock of `performance.now()`.
   * @param {any} backend
   * @param {string} key
   */
  async untilFree(backend, key, atMostMs = this.ttlMs + this.toleranceMs + CLOCK_GRAIN_MS) {
    const giveUpAt = performance.now() + atMostMs;
    let lastHeldAt = -Infinity;
    for (;;) {
      const askedAt = performance.now();
      if (!(await backend.isLocked({ key }))) return { lastHeldAt, freeAt: performance.now() };
      lastHeldAt = askedAt;
      assert.ok(askedAt <= giveUpAt, `the key is still locked after ${atMostMs} ms`);
      await sleep(POLL_MS);
    }
  }

  async cleanUp() {
    const { cleanUp = closeIfPossible } = this.#options;
    for (const backend of new Set(this.#backends)) await cleanUp(backend);
  }
}

/** @param {any} backend */
async function closeIfPossible(backend) {
  await backend.close?.();
}

/**
 * Returns the error that the operation rejects with. The test fails if the operation resolves. It also
 * fails if the operation throws synchronously, because callers expect a promise.
 * @param {() => Promise<unknown>} operation
 * @param {string} what
 */
export async function rejection(operation, what) {
  /** @type {Promise<unknown>} */
  let promise;
  try {
    promise = operation();
  } catch {
    assert.fail(`${what} threw at once: it must return a promise that rejects`);
  }
  /** @type {any} */
  let error;
  try {
    await promise;
  } catch (thrown) {
    error = thrown;
  }
  assert.ok(error !== undefined, `${what} resolved: it must reject`);
  return error;
}

/**
 * Fails unless the operation rejects with this code of a LockError.
 * @param {() => Promise<unknown>} operation
 * @param {string} code
 * @param {string} what
 */
export async function rejectsWith(operation, code, what) {
  const error = await rejection(operation, what);
  // The class is compared by name, because a program may have loaded the package twice.
  assert.equal(error?.name, "LockError", `${what} must reject with a LockError`);
  assert.equal(error.code, code, `${what} must reject with the code "${code}"`);
}
