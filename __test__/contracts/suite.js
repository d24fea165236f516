// The contract: what every backend must do, whatever it stores its locks in.
// A backend joins with a file of its own that calls `contract(name, spec)`; setup.js describes `spec`.

import { describe, expect, test } from "vitest";
import { testBackend } from "../../js/testing.js";
import { abort } from "./abort.js";
import { close } from "./close.js";
import { closing } from "./closing.js";
import { concurrency } from "./concurrency.js";
import { contention } from "./contention.js";
import { disposal } from "./disposal.js";
import { entry } from "./entry.js";
import { errors } from "./errors.js";
import { events } from "./events.js";
import { expiry } from "./expiry.js";
import { fences } from "./fences.js";
import { forms } from "./forms.js";
import { holding } from "./holding.js";
import { keys } from "./keys.js";
import { labels } from "./labels.js";
import { leading } from "./leading.js";
import { lifecycle } from "./lifecycle.js";
import { lockAcquisition } from "./lock-acquisition.js";
import { lockFunction } from "./lock.js";
import { lockLoss } from "./lock-loss.js";
import { looking } from "./looking.js";
import { lookup } from "./lookup.js";
import { outliving } from "./outliving.js";
import { EXPECTED, scenario } from "./scenario.js";
import { setup } from "./setup.js";
import { telemetry } from "./telemetry.js";
import { unreachable } from "./unreachable.js";
import { watching } from "./watching.js";

const PARTS = [
  lifecycle,
  contention,
  fences,
  keys,
  lookup,
  errors,
  abort,
  disposal,
  lockFunction,
  lockAcquisition,
  forms,
  entry,
  outliving,
  telemetry,
  concurrency,
  close,
  looking,
  labels,
  // Side by side: these mostly wait for the clock.
  expiry,
  lockLoss,
  holding,
  watching,
  leading,
  events,
  closing,
  unreachable,
];

/** Long enough for a heartbeat on a machine that is busy. */
const PUBLIC_TTL_MS = 1_000;

export function contract(name, spec) {
  describe(name, () => {
    const t = setup(spec);
    // What people who write a backend test theirs with. Side by side: it mostly waits for the clock.
    testBackend({
      describe: describe.concurrent,
      test,
      ...t.pool(),
      shared: t.shared,
      toleranceMs: t.toleranceMs,
      ttlMs: PUBLIC_TTL_MS,
    });
    for (const part of PARTS) part(t);

    test("the scripted scenario gives the same transcript as everywhere", async () => {
      expect(await scenario(await t.isolated())).toEqual(EXPECTED);
    });
  });
}
