import { collections, open } from "../firestore/open.js";
import { contract } from "./suite.js";

contract("firestore", {
  make: (options, namespace) => open({ ...collections(namespace), ...options }),
});
