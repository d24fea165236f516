import { join } from "node:path";
import { createSqliteBackend } from "../../js/sqlite.js";
import { testFolder } from "../sqlite/folder.js";
import { contract } from "./suite.js";

const folder = testFolder();

contract("sqlite", {
  make: (options, namespace) =>
    createSqliteBackend(join(folder.path, `${namespace}.db`), { durability: "normal", ...options }),
});
