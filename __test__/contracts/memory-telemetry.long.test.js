import { createMemoryBackend } from "../fixtures/api.js";
import { decorated } from "../fixtures/decorated.js";
import { contract } from "./suite.js";

contract("memory, decorated with telemetry", {
  make: decorated((options) => createMemoryBackend(options)),
  shared: false,
});
