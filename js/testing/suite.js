// Registers the contract as tests, with any test runner.

import { LockError } from "../base/errors.js";
import { acquiring } from "./behaviours/acquire.js";
import { expiring } from "./behaviours/expiry.js";
import { extending } from "./behaviours/extend.js";
import { fencing } from "./behaviours/fences.js";
import { naming } from "./behaviours/keys.js";
import { lookingUp } from "./behaviours/lookup.js";
import { releasing } from "./behaviours/release.js";
import { cancelling } from "./behaviours/signals.js";
import { validating } from "./behaviours/validation.js";
import { working } from "./behaviours/work.js";
import { Context } from "./context.js";
import { readOptions } from "./options.js";

/** @import { TestBackendOptions } from "../../types/testing.js" */

/**
 * One thing that the contract demands of a backend.
 * @typedef {object} Behaviour
 * @property {string} title the name of its test
 * @property {"fences" | "shared"} [needs] registered only if the backend has fences, or if two
 *   backends from `create` see the same locks
 * @property {(t: Context) => Promise<void>} run rejects if the backend breaks the contract
 */

/** @type {Record<string, Behaviour>} */
export const BEHAVIOURS = {
  ...acquiring,
  ...releasing,
  ...extending,
  ...expiring,
  ...lookingUp,
  ...fencing,
  ...naming,
  ...cancelling,
  ...validating,
  ...working,
};

/** How much longer the runner's own limit is than ours, so that people read our message. */
const RUNNER_EXTRA_MS = 5_000;

/** @param {TestBackendOptions<any>} given */
export function testBackend(given) {
  const options = readOptions(given, Object.keys(BEHAVIOURS));
  const { describe, test, timeoutMs } = options;
  const isAsked = (/** @type {Behaviour} */ { needs }) =>
    (needs !== "fences" || options.supportsFencing) && (needs !== "shared" || options.shared);
  describe(options.name, () => {
    for (const [name, behaviour] of Object.entries(BEHAVIOURS)) {
      if (options.skip.has(name) || !isAsked(behaviour)) continue;
      // vitest and Jest take the limit as a third argument; node:test has none and ignores it.
      test(
        `${behaviour.title} [${name}]`,
        () => runOn(behaviour, options),
        timeoutMs + RUNNER_EXTRA_MS,
      );
    }
  });
}

/**
 * @param {Behaviour} behaviour
 * @param {import("./options.js").Options} options
 */
async function runOn(behaviour, options) {
  const context = new Context(options);
  try {
    await within(options.timeoutMs, behaviour.run(context));
  } finally {
    await context.cleanUp();
  }
}

/**
 * Settles as `work` does, or rejects when the time is over. An operation that never settles must fail its
 * test even in a runner without a limit.
 * @param {number} ms
 * @param {Promise<void>} work
 */
async function within(ms, work) {
  /** @type {NodeJS.Timeout | undefined} */
  let timer;
  const limit = new Promise((_, reject) => {
    const expired = () =>
      reject(
        new LockError(
          "NetworkTimeout",
          `The test did not finish within timeoutMs (${ms} ms): an operation of the backend is too ` +
            "slow or never settles. Raise timeoutMs if the store is slow",
        ),
      );
    timer = setTimeout(expired, ms);
  });
  try {
    await Promise.race([work, limit]);
  } finally {
    clearTimeout(timer);
  }
}
