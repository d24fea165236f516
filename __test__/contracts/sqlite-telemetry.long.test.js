import { join } from "node:path";
import { decorated } from "../fixtures/decorated.js";
import { testFolder } from "../sqlite/folder.js";
import { open } from "../sqlite/open.js";
import { contract } from "./suite.js";

const folder = testFolder();

contract("sqlite, decorated with telemetry", {
  make: decorated((options, namespace) =>
    open({ path: join(folder.path, `${namespace}.db`), ...options }),
  ),
});
