// Opens a backend in the processes and threads that tests start.

import { createSqliteBackend } from "../../js/sqlite.js";

// Without waiting for the disk: no test cuts the power.
export const open = ({ path, ...options }) =>
  createSqliteBackend(path, { durability: "normal", operationTimeoutMs: 60_000, ...options });
