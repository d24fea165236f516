// The promises under faults, on postgres, pgbouncer, the emulator (FIRESTORE_EMULATOR_HOST) and SQLite.
// The clock of one process is set by faketime.

import { testShortRuns } from "./short.js";

testShortRuns(["postgres", "pgbouncer", "firestore", "sqlite"], 30);
