// A worker thread that locks one key after another and counts its locks.

import { workerData } from "node:worker_threads";
import { createSqliteBackend } from "../../js/sqlite.js";

const { path, counter, prefix } = workerData;
const backend = createSqliteBackend(path);
await backend.isLocked({ key: "warm" });
for (;;) {
  await backend.acquire({ key: `${prefix}:${counter[0]}`, ttlMs: 600_000 });
  counter[0] += 1;
}
