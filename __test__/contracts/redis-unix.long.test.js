import { afterAll } from "vitest";
import { startRedis } from "../../scripts/servers.mjs";
import { open } from "../redis/open.js";
import { contract } from "./suite.js";

const server = await startRedis({ unixSocket: true });
afterAll(() => server.stop());

contract("redis over a Unix socket", {
  make: (options, keyPrefix) => open({ target: server.url, keyPrefix, ...options }),
  removedAtTtl: true,
});
