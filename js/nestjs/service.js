// The service that applications inject. It owns the backend of the application.

import { holdWith, tryHoldWith } from "../lock/hold.js";
import { leadWith } from "../lock/lead.js";
import { lockWith, tryLockWith } from "../lock/lock.js";

/** @import { LeadConfig, LockConfig } from "../../index.js" */

export class LockService {
  #closeTimeoutMs;

  /**
   * @param {any} backend
   * @param {number} [closeTimeoutMs]
   */
  constructor(backend, closeTimeoutMs) {
    this.backend = backend;
    this.#closeTimeoutMs = closeTimeoutMs;
  }

  /**
   * @param {(context: any) => any} fn
   * @param {LockConfig} config
   */
  lock(fn, config) {
    return lockWith(this.backend, fn, config);
  }

  /**
   * @param {(context: any) => any} fn
   * @param {LockConfig} config
   */
  tryLock(fn, config) {
    return tryLockWith(this.backend, fn, config);
  }

  /** @param {LockConfig} config */
  hold(config) {
    return holdWith(this.backend, config);
  }

  /** @param {LockConfig} config */
  tryHold(config) {
    return tryHoldWith(this.backend, config);
  }

  /**
   * @param {(context: any) => any} fn
   * @param {LeadConfig} config
   */
  lead(fn, config) {
    return leadWith(this.backend, fn, config);
  }

  /** Called by Nest when the application closes, after its HTTP server has answered all requests. */
  async onApplicationShutdown() {
    await this.backend.close?.({ timeoutMs: this.#closeTimeoutMs });
  }
}
