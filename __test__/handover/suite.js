// The hand-over of locks between processes: what it promises on every backend.
// A backend joins with a file of its own that calls `handover(name, spec)`; setup.js describes `spec`.

import { describe } from "vitest";
import { crowd } from "./crowd.js";
import { end } from "./end.js";
import { expiry } from "./expiry.js";
import { lostConnection } from "./lost-connection.js";
import { order } from "./order.js";
import { quiet } from "./quiet.js";
import { releases } from "./release.js";
import { rounds } from "./rounds.js";
import { setup } from "./setup.js";

const PARTS = [releases, expiry, quiet, order, end, lostConnection, crowd, rounds];

/** `more(t)`: further tests that only this backend has; `without`: parts that it cannot have. */
export function handover(name, { more, without = [], ...spec }) {
  describe(`hand-over on ${name}`, () => {
    const t = setup(spec);
    for (const part of [...PARTS, more]) {
      if (part && !without.includes(part)) part(t);
    }
  });
}
