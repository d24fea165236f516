import { decorated } from "../fixtures/decorated.js";
import { open } from "../redis/open.js";
import { contract } from "./suite.js";

contract("redis, decorated with telemetry", {
  make: decorated((options, keyPrefix) => open({ keyPrefix, ...options })),
  removedAtTtl: true,
});
