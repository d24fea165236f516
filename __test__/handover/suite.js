// The hand-over of locks between processes: its guarantees on every backend. Each backend has a test
// file that calls `handover(name, spec)`; setup.js describes `spec`.

import { describe } from "vitest";
import { isLong } from "../fixtures/size.js";
import { crowd } from "./crowd.js";
import { end } from "./end.js";
import { expiry } from "./expiry.js";
import { lostConnection } from "./lost-connection.js";
import { order } from "./order.js";
import { quiet } from "./quiet.js";
import { releases } from "./release.js";
import { rounds } from "./rounds.js";
import { setup } from "./setup.js";

/** The parts that are worth repeating at full size. */
const SIZED = [crowd, rounds];
const PARTS = [releases, expiry, quiet, order, end, lostConnection, ...SIZED];

/** `more(t)` adds tests that only this backend has. `without` names parts that it does not support. */
export function handover(name, { more, without = [], ...spec }) {
  describe(`hand-over on ${name}`, () => {
    const t = setup(spec);
    for (const part of isLong ? SIZED : [...PARTS, more]) {
      if (part && !without.includes(part)) part(t);
    }
  });
}
