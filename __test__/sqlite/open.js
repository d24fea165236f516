// Opens a backend in the processes and threads that tests start.

import { createSqliteBackend } from "../../js/sqlite.js";

// Do not wait for the disk, because no test cuts the power.
export const open = ({ path, ...options }) =>
  createSqliteBackend(path, { durability: "normal", operationTimeoutMs: 60_000, ...options });
