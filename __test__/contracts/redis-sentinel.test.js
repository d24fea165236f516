import { afterAll } from "vitest";
import { startRedisSentinel } from "../../scripts/servers.mjs";
import { failover, open } from "../redis/open.js";
import { contract } from "./suite.js";

const deployment = await startRedisSentinel();
afterAll(() => deployment.stop());

const target = {
  sentinels: deployment.sentinels.map(({ host, port }) => ({ host, port })),
  name: deployment.name,
};

// The first backend is connected when the master changes, and has to find the new one itself. The others
// wait for that: what they write to the old master in that moment would be lost.
let failedOver;

contract("redis sentinel, after a failover", {
  async make(options, keyPrefix) {
    const backend = open({ target, keyPrefix, ...options });
    failedOver ??= backend.isLocked({ key: "connect" }).then(() => failover(deployment));
    await failedOver;
    return backend;
  },
  removedAtTtl: true,
});
