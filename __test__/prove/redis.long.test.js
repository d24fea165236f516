// The promises under faults, on redis-server: alone, with redis-sentinel and as a cluster. The clock of
// one process is set by faketime.

import { testShortRuns } from "./short.js";

testShortRuns(["redis", "redis-sentinel", "redis-cluster"], 100);
