import { size } from "../fixtures/size.js";
import { collections } from "../firestore/open.js";
import { sharing } from "./suite.js";

sharing("Firestore", {
  module: new URL("../firestore/open.js", import.meta.url),
  start: async () => ({ config: collections(), stop: async () => {} }),
  toleranceMs: 1_000,
  rounds: size(12, 40),
});
