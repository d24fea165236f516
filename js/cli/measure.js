// Measurements on a backend.

/** @import { FencingCapabilities, HeldLock, LockInfo } from "../../index.js" */
/** @typedef {import("./backend.js").Opened} Opened */
/** @typedef {{ beforeMs: number, afterMs: number }} Bounds local times around the grant */

/** One key for all runs, because its fence counter stays in the store. */
const KEY = "syncguard:doctor";
const TTL_MS = 10_000;
/** How long to wait for another doctor that holds the lock. */
const PATIENCE_MS = 15_000;
/** How many doctors may hold a share at a time. */
const SHARES = 1000;
const ROUND_TRIPS = 20;
/**
 * How long a waiter waits before the release. On a slow server it polls for up to 2.2 s before it
 * relies on notifications, and would acquire the lock quickly without any.
 */
const WATCHING_MS = 2500;
/** When a waiter that is not notified tries again, and how long a notification may take. */
const RETRY_MS = 6000;
const NOTIFIED_WITHIN_MS = 2000;

/**
 * @param {Opened} opened
 * @returns {Promise<{ lock: LockInfo<FencingCapabilities>, bounds: Bounds }>}
 */
export async function takeLock({ backend, library }) {
  const acquisition = { timeoutMs: PATIENCE_MS, maxRetries: Infinity };
  const first = await library.hold(backend, { key: KEY, ttlMs: TTL_MS, acquisition });
  await first.release();
  // The second time there is a connection, so the local clock is read right before and after the grant.
  const beforeMs = Date.now();
  const held = await library.hold(backend, { key: KEY, ttlMs: TTL_MS, acquisition });
  const afterMs = Date.now();
  try {
    const lock = await backend.lookup({ key: KEY });
    if (lock === null)
      throw new library.LockError(
        "Internal",
        "The lookup did not find a lock that is held. Check that all requests reach the same server",
      );
    return { lock, bounds: { beforeMs, afterMs } };
  } finally {
    await held.release();
  }
}

/**
 * Takes a share of a key and releases it. Returns its slot.
 * @param {Opened} opened
 * @returns {Promise<number>}
 */
export async function takeShare({ backend, library }) {
  const acquisition = { timeoutMs: PATIENCE_MS, maxRetries: Infinity };
  const share = { key: KEY, concurrency: SHARES, ttlMs: TTL_MS, acquisition };
  const held = await library.hold(backend, share);
  await held.release();
  return held.slot;
}

/**
 * Measures how far the server's clock differs from ours.
 * @param {LockInfo<FencingCapabilities>} lock
 * @param {Bounds} bounds
 */
export function clockOffset({ acquiredAtMs }, { beforeMs, afterMs }) {
  const errorMs = (afterMs - beforeMs) / 2 + 1;
  return { aheadMs: acquiredAtMs - (beforeMs + afterMs) / 2, errorMs };
}

/** @param {Opened} opened */
export async function roundTrip({ backend }) {
  const times = [];
  for (let i = 0; i < ROUND_TRIPS; i += 1) {
    const started = performance.now();
    await backend.isLocked({ key: KEY });
    times.push(performance.now() - started);
  }
  times.sort((a, b) => a - b);
  return { medianMs: times[ROUND_TRIPS / 2], maxMs: times[ROUND_TRIPS - 1] };
}

/**
 * Measures how long after a release a waiter on another connection gets the lock. Returns `undefined` if
 * the waiter was not notified.
 * @param {Opened} opened
 * @param {Opened} other
 * @returns {Promise<number | undefined>}
 */
export async function notifiedAfter({ backend, library }, other) {
  const patient = { timeoutMs: PATIENCE_MS, maxRetries: Infinity };
  // Connects first, so that connecting does not delay the watch.
  await other.backend.isLocked({ key: KEY });
  const held = await library.hold(backend, { key: KEY, ttlMs: TTL_MS, acquisition: patient });
  let acquiredAt = 0;
  const waiting = other.library
    .hold(other.backend, {
      key: KEY,
      ttlMs: TTL_MS,
      acquisition: { ...patient, retryDelayMs: RETRY_MS, backoff: "fixed", jitter: "none" },
    })
    .then((/** @type {HeldLock} */ next) => {
      acquiredAt = performance.now();
      return next.release();
    });
  await new Promise((resolve) => setTimeout(resolve, WATCHING_MS));
  const releasedAt = performance.now();
  await Promise.all([held.release(), waiting]);
  const afterMs = acquiredAt - releasedAt;
  return afterMs < NOTIFIED_WITHIN_MS ? afterMs : undefined;
}
