// Compares the Redis backend with other lock libraries, on a separate server.
import { startRedis } from "../scripts/servers.mjs";
import { benchmark, standardScenarios } from "./lib/benchmark.mjs";
import { contestants } from "./redis/contestants.mjs";

const server = await startRedis();
try {
  await benchmark({
    name: "redis",
    title: "Redis: acquire + release",
    contestants: contestants(server.url),
    scenarios: standardScenarios({ serverPid: server.server.pid }),
  });
} finally {
  await server.stop();
}
