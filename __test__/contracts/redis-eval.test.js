import { afterAll } from "vitest";
import { ioredis, open } from "../redis/open.js";
import { contract } from "./suite.js";

const client = ioredis();
afterAll(() => client.disconnect());

// An object of which nothing is known but eval().
const wrapper = { eval: (...args) => client.eval(...args) };

contract("redis through the client's eval()", {
  make: (options, keyPrefix) => open({ target: wrapper, keyPrefix, ...options }),
  removedAtTtl: true,
  needsLoop: true,
});
