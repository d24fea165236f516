// hold() and tryHold(): a lock for `await using`.

import { DisposalBy, hooksOf } from "./handle.js";
import { readLockConfig } from "./config.js";
import { LockContext } from "./held.js";
import { Taking } from "./take.js";

/** @import { LockConfig } from "../../index.js" */
/** @typedef {import("./config.js").LockPlan} LockPlan */
/** @typedef {import("./held.js").Held} Held */

/**
 * @param {any} backend any LockBackend
 * @param {LockConfig} config
 */
export function holdWith(backend, config) {
  return takeHandle("hold", backend, config);
}

/**
 * @param {any} backend any LockBackend
 * @param {LockConfig} config
 */
export function tryHoldWith(backend, config) {
  return takeHandle("tryHold", backend, config);
}

/**
 * @param {"hold" | "tryHold"} form
 * @param {any} backend
 * @param {LockConfig} config
 */
async function takeHandle(form, backend, config) {
  const plan = readLockConfig(config, `${form}({ key })`);
  const taking = new Taking(backend, plan, form === "hold");
  while (taking.held === undefined) taking.hear(await taking.answer());
  return taking.held && handleOf(backend, taking.held, plan);
}

/**
 * @param {any} backend
 * @param {Held} held
 * @param {LockPlan} plan
 */
function handleOf(backend, held, plan) {
  const hooks = hooksOf(backend);
  const disposal = new DisposalBy(async () => held.end(), held.lockId, plan.key, {
    onReleaseError: plan.onReleaseError ?? hooks?.onReleaseError,
    disposeTimeoutMs: hooks?.disposeTimeoutMs,
  });
  return Object.assign(new LockContext(held), {
    release: () => disposal.release(),
    [Symbol.asyncDispose]: () => disposal.dispose(),
  });
}
