// A health indicator for @nestjs/terminus.

import { createRequire } from "node:module";

/** @import { LockService } from "./service.js" */

const DEFAULT_TIMEOUT_MS = 1_000;

export class SyncGuardHealthIndicator {
  #locks;

  /** @param {LockService} locks */
  constructor(locks) {
    this.#locks = locks;
  }

  /**
   * @param {string} name under which the result is shown
   * @param {{ timeoutMs?: number | undefined }} [options]
   * @returns {Promise<any>}
   */
  async pingCheck(name, { timeoutMs = DEFAULT_TIMEOUT_MS } = {}) {
    const signal = AbortSignal.timeout(timeoutMs);
    try {
      // Reads a lock that nobody acquires.
      await this.#locks.backend.isLocked({ key: "syncguard:health", signal });
    } catch (error) {
      const { message } = /** @type {Error} */ (error);
      return down(name, signal.aborted ? `No reply within ${timeoutMs} ms` : message);
    }
    return { [name]: { status: "up" } };
  }
}

/**
 * Reports a failure: as a result to Terminus 11 and later, and as an error to Terminus 10.
 * @param {string} name
 * @param {string} message
 */
function down(name, message) {
  const result = { [name]: { status: "down", message } };
  if (returnsFailures()) return result;
  throw Object.assign(new Error(message), { isHealthCheckError: true, causes: result });
}

function returnsFailures() {
  try {
    return "HealthIndicatorService" in requireTerminus();
  } catch {
    return true; // Terminus is not installed, so the caller reads the result.
  }
}

/** @returns {object} */
function requireTerminus() {
  try {
    // The published code is CommonJS. Bundlers treat a plain call in a `try` as an optional dependency.
    return require("@nestjs/terminus");
  } catch (thrown) {
    if (!(thrown instanceof ReferenceError)) throw thrown;
  }
  // The sources are ES modules, which have no `require`.
  return createRequire(import.meta.url)("@nestjs/terminus");
}
