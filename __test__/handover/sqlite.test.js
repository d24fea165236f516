import { size } from "../fixtures/size.js";
import { testFolder } from "../sqlite/folder.js";
import { lostConnection } from "./lost-connection.js";
import { handover } from "./suite.js";

const folder = testFolder();

handover("SQLite", {
  module: new URL("../sqlite/open.js", import.meta.url),
  start: async () => ({ config: { path: folder.file() }, stop: async () => {} }),
  toleranceMs: 1_000,
  rounds: size(200, 2_000),
  without: [lostConnection],
});
