import { open } from "../redis/open.js";
import { contract } from "./suite.js";

contract("redis", {
  make: (options, keyPrefix) => open({ keyPrefix, ...options }),
  removedAtTtl: true,
});
