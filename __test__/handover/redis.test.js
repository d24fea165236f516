import { startRedis } from "../../scripts/servers.mjs";
import { ioredis } from "../redis/open.js";
import { handover } from "./suite.js";

async function start() {
  const server = await startRedis();
  const redis = ioredis(server.url);
  const monitor = await redis.monitor();
  let commands = 0;
  monitor.on("monitor", (_, args, source) => {
    if (source !== "lua" && args[0].toLowerCase() !== "client") commands += 1;
  });
  const watchers = async () => {
    const clients = (await redis.client("LIST")).split("\n");
    const tracking = clients.filter((client) => / flags=\w*t/.test(client));
    return tracking.map((client) => /id=(\d+)/.exec(client)[1]);
  };
  return {
    config: { target: server.url },
    watchers: async () => (await watchers()).length,
    async cutWatchers() {
      for (const id of await watchers()) await redis.client("KILL", "ID", id);
    },
    async commands() {
      const counted = commands;
      commands = 0;
      return counted;
    },
    async stop() {
      monitor.disconnect();
      redis.disconnect();
      await server.stop();
    },
  };
}

handover("Redis", {
  module: new URL("../redis/open.js", import.meta.url),
  start,
  rounds: 5_000,
});
