// Processes that lock random sets of keys.

import { expect, test } from "vitest";
import { size } from "../fixtures/size.js";
import { examine } from "./history.js";
import { workTogether } from "./holders.js";

const PROCESSES = 4;
const KEYS = 6;
const LANES = 2;
/** In each lane. All together: 1,000 in the long run. */
const ROUNDS = size(8, 125);
const WORK_MS = 1;

export function sets(t) {
  test(`${PROCESSES * LANES * ROUNDS} random sets of ${KEYS} keys: no deadlock, no key held twice`, async () => {
    const processes = await t.processes(PROCESSES);
    const someKeysOf = t.sixKeys ? await t.sixKeys(t) : Array.from({ length: KEYS }, () => t.key());
    const work = { lanes: LANES, rounds: ROUNDS, workMs: WORK_MS, someKeysOf };
    const patient = { ...work, acquisition: { timeoutMs: 100_000 } };
    const records = await workTogether(
      processes,
      processes.map(() => patient),
    );
    expect(records).toHaveLength(PROCESSES * LANES * ROUNDS);
    expect(examine(records)).toEqual({ violations: [], most: 1 });
    const locked = await Promise.all(someKeysOf.map((key) => t.backend.isLocked({ key })));
    expect(locked).toEqual(someKeysOf.map(() => false));
  }, 600_000);
}
