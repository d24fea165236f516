// The promises under faults, on postgres, pgbouncer, the emulator (FIRESTORE_EMULATOR_HOST) and SQLite.
// The clock of one process is set by faketime.

import { expect, test } from "vitest";
import { broken, shortRun } from "./short.js";

test.concurrent.each(["postgres", "pgbouncer", "firestore", "sqlite"])(
  "%s",
  async (backend) => {
    const summary = await shortRun(backend);
    expect(broken(summary)).toEqual([]);
    expect(summary.turns).toBeGreaterThan(30);
    expect(Object.keys(summary.faults).length).toBeGreaterThan(2);
  },
  180_000,
);
