import { createMemoryBackend } from "../fixtures/api.js";
import { contract } from "./suite.js";

contract("memory", { make: (options) => createMemoryBackend(options), shared: false });
