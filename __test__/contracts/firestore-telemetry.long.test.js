import { decorated } from "../fixtures/decorated.js";
import { collections, open } from "../firestore/open.js";
import { contract } from "./suite.js";

contract("firestore, decorated with telemetry", {
  make: decorated((options, namespace) => open({ ...collections(namespace), ...options })),
});
