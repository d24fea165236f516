import { decorated } from "../fixtures/decorated.js";
import { open, tables } from "../postgres/open.js";
import { contract } from "./suite.js";

contract("postgres, decorated with telemetry", {
  make: decorated((options, namespace) => open({ ...tables(namespace), ...options })),
});
