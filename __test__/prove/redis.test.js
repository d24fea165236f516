// The promises under faults, on redis-server: alone, with redis-sentinel and as a cluster. The clock of
// one process is set by faketime.

import { expect, test } from "vitest";
import { broken, shortRun } from "./short.js";

test.concurrent.each(["redis", "redis-sentinel", "redis-cluster"])(
  "%s",
  async (backend) => {
    const summary = await shortRun(backend);
    expect(broken(summary)).toEqual([]);
    expect(summary.turns).toBeGreaterThan(100);
    expect(Object.keys(summary.faults).length).toBeGreaterThan(2);
  },
  180_000,
);
