import { afterAll } from "vitest";
import { startRedisCluster } from "../../scripts/servers.mjs";
import { open } from "../redis/open.js";
import { contract } from "./suite.js";

const cluster = await startRedisCluster();
afterAll(() => cluster.stop());

contract("redis cluster", {
  // Only one node is named, and the backend finds the others.
  make: (options, keyPrefix) => open({ target: { cluster: [cluster.url] }, keyPrefix, ...options }),
  removedAtTtl: true,
});
