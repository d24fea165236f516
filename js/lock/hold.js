// hold() and tryHold(): a lock for `await using`.

import { DisposalBy, hooksOf } from "./handle.js";
import { readLockConfig } from "./config.js";
import { LockContext } from "./held.js";
import { take } from "./take.js";

/** @import { LockConfig } from "../../index.js" */
/** @typedef {import("./config.js").LockPlan} LockPlan */
/** @typedef {import("./held.js").Held} Held */

/**
 * @param {any} backend any LockBackend
 * @param {LockConfig} config
 */
export async function holdWith(backend, config) {
  const plan = readLockConfig(config, "hold({ key })");
  return take(backend, plan, true, (held) => handleOf(backend, held, plan));
}

/**
 * @param {any} backend any LockBackend
 * @param {LockConfig} config
 */
export async function tryHoldWith(backend, config) {
  const plan = readLockConfig(config, "tryHold({ key })");
  return take(backend, plan, false, (held) => handleOf(backend, held, plan));
}

/**
 * @param {any} backend
 * @param {Held} held
 * @param {LockPlan} plan
 */
function handleOf(backend, held, plan) {
  const hooks = hooksOf(backend);
  const disposal = new DisposalBy(() => held.end(), held.lockId, plan.key, {
    onReleaseError: plan.onReleaseError ?? hooks?.onReleaseError,
    disposeTimeoutMs: hooks?.disposeTimeoutMs,
  });
  return Object.assign(new LockContext(held), {
    release: () => disposal.release(),
    [Symbol.asyncDispose]: () => disposal.dispose(),
  });
}
