import { prefix } from "../redis/open.js";
import { sharing } from "./suite.js";

sharing("Redis", {
  module: new URL("../redis/open.js", import.meta.url),
  start: async () => ({ config: { keyPrefix: prefix() }, stop: async () => {} }),
});
