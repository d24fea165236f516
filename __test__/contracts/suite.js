// The contract that every backend has to keep, in whatever store it has its locks.
// Each backend has a file that calls `contract(name, spec)`. setup.js describes `spec`.

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
import { several } from "./several.js";
import { sharing } from "./sharing.js";
import { telemetry } from "./telemetry.js";
import { unreachable } from "./unreachable.js";
import { watching } from "./watching.js";

/** These run one test at a time, because they compute, block the thread, or observe the whole process. */
const ONE_BY_ONE = [
  lifecycle,
  contention,
  keys,
  lookup,
  errors,
  abort,
  disposal,
  lockFunction,
  entry,
  outliving,
  concurrency,
  close,
  labels,
];

/** Their tests run at the same time, because most of them wait for a lock to expire or to be released. */
const WAITING = [lockAcquisition, forms, looking, telemetry, fences];

/** Their tests run at the same time, because they wait for heartbeats and for the end of a lock. */
const HOLDING = [
  expiry,
  lockLoss,
  holding,
  sharing,
  several,
  watching,
  leading,
  events,
  closing,
  unreachable,
];

/** The TTL is long enough for a heartbeat on a busy machine. */
const PUBLIC_TTL_MS = 1_000;

export function contract(name, spec) {
  describe(name, () => {
    const t = setup(spec);
    // Vitest runs adjacent concurrent groups together. These three groups have others between
    // them, because all at once would keep a store busy for so long that locks expire.
    for (const part of WAITING) part(t);
    test.concurrent("the scripted scenario has the same transcript on every backend", async () => {
      expect(await scenario(await t.isolated())).toEqual(EXPECTED);
    });

    for (const part of ONE_BY_ONE) part(t);
    for (const part of HOLDING) part(t);

    describe("the exported suite", () => {
      // This is the suite that people run on backends of their own.
      testBackend({
        describe: describe.concurrent,
        test,
        ...t.pool(),
        shared: t.shared,
        toleranceMs: t.toleranceMs,
        ttlMs: PUBLIC_TTL_MS,
      });
    });
  });
}
