import { tables } from "../postgres/open.js";
import { sharing } from "./suite.js";

sharing("PostgreSQL", {
  module: new URL("../postgres/open.js", import.meta.url),
  start: async () => ({ config: tables(), stop: async () => {} }),
  toleranceMs: 1_000,
});
