import { afterAll } from "vitest";
import { ioredis, open } from "../redis/open.js";
import { contract } from "./suite.js";

const client = ioredis();
afterAll(() => client.disconnect());

// The object has eval() and nothing else.
const wrapper = { eval: (...args) => client.eval(...args) };

contract("redis through the client's eval()", {
  make: (options, keyPrefix) => open({ target: wrapper, keyPrefix, ...options }),
  removedAtTtl: true,
  needsLoop: true,
});
