// Keeps a lock of a backend that is not native alive while fn runs.

import { LockError } from "../base/errors.js";
import { LONGEST_TIMER_MS } from "../base/config.js";

/** @import { CustomLockBackend } from "../../index.js" */

/**
 * Extends at a third of the ttl, sooner after a failure. Returns what stops it.
 * @param {CustomLockBackend} backend
 * @param {string} lockId
 * @param {number} ttlMs
 * @param {import("./holding.js").Holding} holding
 * @returns {() => void}
 */
export function startHeartbeat(backend, lockId, ttlMs, holding) {
  const stopped = new AbortController();
  /** @type {NodeJS.Timeout} */
  let timer;

  /** @param {number} ms */
  function schedule(ms) {
    timer = setTimeout(beat, Math.min(ms, LONGEST_TIMER_MS));
    // The work that the lock protects keeps the process alive, its heartbeat does not.
    timer.unref?.();
  }

  async function beat() {
    const startedAt = performance.now();
    let next = ttlMs / 3;
    try {
      const result = await backend.extend({ lockId, ttlMs, signal: stopped.signal });
      if (stopped.signal.aborted) return;
      if (!result.ok) {
        holding.lose(
          new LockError(
            "LockLost",
            "The lock could not be extended: it had expired or was released, others may hold it now",
            { lockId },
          ),
        );
        return;
      }
      holding.extended(result.expiresAtMs, startedAt + ttlMs);
    } catch {
      // Until the lock's time has passed it may still succeed; holding watches that time.
      next = ttlMs / 9;
    }
    if (!stopped.signal.aborted && !holding.lost) schedule(next);
  }

  schedule(ttlMs / 3);
  return () => {
    clearTimeout(timer);
    stopped.abort();
  };
}
