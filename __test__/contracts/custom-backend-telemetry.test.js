import { createCustomBackend, createStore } from "../fixtures/custom-backend.js";
import { decorated } from "../fixtures/decorated.js";
import { contract } from "./suite.js";

const stores = new Map();

contract("a hand-made backend, decorated with telemetry", {
  make: decorated((options, namespace) => {
    if (!stores.has(namespace)) stores.set(namespace, createStore());
    return createCustomBackend(stores.get(namespace), options);
  }),
  native: false,
  needsLoop: true,
});
