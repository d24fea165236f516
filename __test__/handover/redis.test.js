import { expect, test } from "vitest";
import { startRedis } from "../../scripts/servers.mjs";
import { until } from "../fixtures/wait.js";
import { size } from "../fixtures/size.js";
import { ioredis } from "../redis/open.js";
import { createSecond } from "../redis/second.js";
import { now, toMs } from "./process.js";
import { handOver, SOON_MS } from "./release.js";
import { untilWaiting } from "./setup.js";
import { handover } from "./suite.js";

async function start() {
  const server = await startRedis();
  const redis = ioredis(server.url);
  const monitor = await redis.monitor();
  let commands = 0;
  monitor.on("monitor", (_, [name], source) => {
    if (source !== "lua" && name.toLowerCase() !== "client") commands += 1;
  });
  const watchers = async () => {
    const clients = (await redis.client("LIST")).split("\n");
    const tracking = clients.filter((client) => / flags=\w*t/.test(client));
    return tracking.map((client) => /id=(\d+)/.exec(client)[1]);
  };
  return {
    redis,
    config: { target: server.url },
    watchers: async () => (await watchers()).length,
    async cutWatchers() {
      for (const id of await watchers()) await redis.client("KILL", "ID", id);
    },
    untilWatched: () => until(async () => (await watchers()).length > 0, "a connection"),
    async commands() {
      const counted = commands;
      commands = 0;
      return counted;
    },
    restart: () => server.restart(),
    async stop() {
      monitor.disconnect();
      redis.disconnect();
      await server.stop();
    },
  };
}

function more(t) {
  test("a release by the scripts of the specification reaches a waiter", async () => {
    const second = createSecond(t.store.redis);
    const take = async (key) => {
      const held = await second.acquire({ key, ttlMs: 60_000 });
      return async () => {
        const at = now();
        expect(await held.release()).toEqual({ ok: true });
        return at;
      };
    };
    expect(await handOver(t, take)).toBeLessThan(SOON_MS);
  });

  test("without permission for CLIENT, waiters poll and a message says so once", async () => {
    // Their connections would be counted too.
    await t.killProcesses();
    await t.store.redis.acl("SETUSER", "poor", "on", ">secret", "~*", "+@all", "-client");
    const target = t.store.config.target.replace("//", "//poor:secret@");
    const waiter = await t.process({ config: { target }, env: { SYNCGUARD_DEBUG: "true" } });
    const keys = [t.key(), t.key()];
    const holder = await t.process();
    for (const key of keys) await holder.take({ key });
    const waiting = keys.map((key) => waiter.wait({ key }));
    await untilWaiting();
    expect(await t.store.watchers()).toBe(0);
    const freeAt = await Promise.all(keys.map((key) => holder.release({ key })));
    for (const [index, { ranAt, failed }] of (await Promise.all(waiting)).entries()) {
      expect(failed).toBe(undefined);
      expect(toMs(ranAt - freeAt[index])).toBeLessThan(2_000);
    }
    expect(waiter.stderr().match(/Waiters poll/g)).toHaveLength(1);
  });
}

handover("Redis", {
  module: new URL("../redis/open.js", import.meta.url),
  start,
  rounds: size(200, 10_000),
  more,
});
