// The hand-over of locks between processes: its guarantees on every backend. Each backend has a test
// file that calls `handover(name, spec)`; setup.js describes `spec`.

import { afterEach, describe } from "vitest";
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

/** These count what the store sees, cut connections, or use all of the machine. */
const ONE_BY_ONE = [end, quiet, order, lostConnection];

/** These mostly wait for the clock, and concern only the keys of one test. */
const SIDE_BY_SIDE = [releases, expiry];

/** `more(t)` adds tests that only this backend has. `without` names parts that it does not support. */
export function handover(name, { more = () => {}, without = [], ...spec }) {
  describe(`hand-over on ${name}`, () => {
    const t = setup(spec);
    const add = (parts) =>
      parts.filter((part) => !without.includes(part)).forEach((part) => part(t));

    describe("one by one", () => {
      afterEach(() => t.recycle());
      add(isLong ? SIZED : [...ONE_BY_ONE, more, ...SIZED]);
    });

    if (isLong) return;
    describe.concurrent("side by side", () => {
      add(SIDE_BY_SIDE);
    });
  });
}
