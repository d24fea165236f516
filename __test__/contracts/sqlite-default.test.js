// The same on the default file. Where that is depends on the system's temp directory.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { createSqliteBackend } from "../../js/sqlite.js";
import { testFolder } from "../sqlite/folder.js";
import { contract } from "./suite.js";

const folder = testFolder();

contract("sqlite, default file", {
  make: async (options, namespace) => {
    const temp = join(folder.path, namespace);
    mkdirSync(temp, { recursive: true });
    process.env[process.platform === "win32" ? "TMP" : "TMPDIR"] = temp;
    const backend = createSqliteBackend(options);
    // The file is found by the first operation: before another test can change the variable.
    await backend.isLocked({ key: "any" });
    await backend.release({ lockId: "a".repeat(22) });
    return backend;
  },
});
