// hold() and tryHold(): a lock for `await using`.

import { DisposalBy, hooksOf, isDebugging } from "../base/handle.js";
import { readLockConfig } from "./config.js";
import { Acquisition } from "./acquisition.js";
import { contextOf } from "./context.js";

/** @import { LockConfig, SeveralLocksConfig } from "../../index.js" */
/** @typedef {import("./config.js").LockPlan} LockPlan */
/** @typedef {import("./held.js").Held | import("./several.js").HeldSeveral} Held */

/**
 * @param {any} backend any LockBackend
 * @param {LockConfig | SeveralLocksConfig} config
 */
export function holdWith(backend, config) {
  return takeHandle("hold", backend, config);
}

/**
 * @param {any} backend any LockBackend
 * @param {LockConfig | SeveralLocksConfig} config
 */
export function tryHoldWith(backend, config) {
  return takeHandle("tryHold", backend, config);
}

/**
 * @param {"hold" | "tryHold"} form
 * @param {any} backend
 * @param {LockConfig | SeveralLocksConfig} config
 */
async function takeHandle(form, backend, config) {
  const plan = readLockConfig(config, `${form}({ key })`);
  const acquisition = new Acquisition(backend, plan, form === "hold");
  while (acquisition.held === undefined) acquisition.onReply(await acquisition.answer());
  return acquisition.held && handleOf(backend, acquisition.held, plan);
}

/**
 * @param {any} backend
 * @param {Held} held
 * @param {LockPlan} plan
 */
function handleOf(backend, held, plan) {
  const hooks = hooksOf(backend);
  const release = async () => {
    // The registry would keep the lock alive, and with it everything that listens to its signal.
    collected?.unregister(held);
    try {
      return await held.end();
    } finally {
      // If one of several releases failed, these are the lockId and the key of that lock.
      disposal.lockId = held.lockId;
      disposal.key = held.key;
    }
  };
  const disposal = new DisposalBy(release, held.lockId, held.key, {
    onReleaseError: plan.onReleaseError ?? hooks?.onReleaseError,
    disposeTimeoutMs: hooks?.disposeTimeoutMs,
  });
  watchForCollection(disposal, held);
  return Object.assign(contextOf(held, plan), {
    release: () => disposal.release(),
    [Symbol.asyncDispose]: async () => {
      const disposing = disposal.dispose();
      // A lost lock is released in the background, so that an unreachable store does not delay the scope.
      if (held.lost() === undefined) await disposing;
    },
  });
}

/** @type {FinalizationRegistry<Held> | undefined} */
let collected;
let isWarned = false;

/**
 * Warns if the handle is garbage collected while the lock is held. Not in production: the registration
 * costs more than the rest of the handle.
 * @param {object} disposal the object to which every way to release the lock refers
 * @param {Held} held
 */
function watchForCollection(disposal, held) {
  if (isWarned || !isDebugging()) return;
  collected ??= new FinalizationRegistry(warnOfCollection);
  collected.register(disposal, held, held);
}

/** @param {Held} held */
function warnOfCollection(held) {
  if (isWarned || !held.isHeld()) return;
  isWarned = true;
  process.emitWarning(
    "The handle of a lock was garbage collected while the lock is held: nobody can release it any more. " +
      "It stays held until it expires, its backend is closed, or the process ends. " +
      "Keep what hold() returned and release it, or use lock() or `await using`",
    { type: "SyncGuardWarning", code: "SYNCGUARD_LOCK_COLLECTED" },
  );
}
