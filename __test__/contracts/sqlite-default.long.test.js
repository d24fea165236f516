// Runs the contract suite on the default file, in a separate directory for each scenario.

import { join } from "node:path";
import { createSqliteBackend } from "../../js/sqlite.js";
import { testFolder } from "../sqlite/folder.js";
import { contract } from "./suite.js";

const folder = testFolder();

contract("sqlite, default file", {
  make: (options, namespace) => {
    process.env.SYNCGUARD_STATE_DIR = join(folder.path, namespace);
    return createSqliteBackend(options);
  },
});
