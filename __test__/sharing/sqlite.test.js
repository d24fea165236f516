import { testFolder } from "../sqlite/folder.js";
import { sharing } from "./suite.js";

const folder = testFolder();

sharing("SQLite", {
  module: new URL("../sqlite/open.js", import.meta.url),
  start: async () => ({ config: { path: folder.file() }, stop: async () => {} }),
  toleranceMs: 1_000,
});
