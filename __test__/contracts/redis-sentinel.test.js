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

// Backends that are already connected have to find the new master themselves.
const FAILOVER_AT = 4;
let made = 0;

contract("redis sentinel, with a failover in the middle", {
  async make(options, keyPrefix) {
    made += 1;
    if (made === FAILOVER_AT) await failover(deployment);
    return open({ target, keyPrefix, ...options });
  },
  removedAtTtl: true,
});
