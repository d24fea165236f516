// A master is replaced under load, and the backend finds the new one.

import { afterAll, expect, test } from "vitest";
import { startRedisCluster, startRedisSentinel } from "../../scripts/servers.mjs";
import { until } from "../fixtures/wait.js";
import { repeat } from "./load.js";
import { failover, open, prefix } from "./open.js";

/** Starts workers that lock and release until they are stopped. */
function load(backend, workers = 16) {
  return repeat([...Array(workers).keys()], async (index) => {
    const held = await backend.acquire({ key: `load:${index}`, ttlMs: 2_000 });
    if (held.ok) await held.release();
    return true;
  });
}

const HARMLESS = ["ServiceUnavailable", "NetworkTimeout"];

const stops = [];
afterAll(() => Promise.all(stops.map((stop) => stop())));

test("Sentinel: a requested failover, and one after the master died", async () => {
  const deployment = await startRedisSentinel();
  stops.push(deployment.stop);
  const sentinels = deployment.sentinels.map(({ host, port }) => ({ host, port }));
  // The first sentinel of the list does not exist, so the others are asked.
  const backend = open({
    target: { sentinels: [{ host: "127.0.0.1", port: 1 }, ...sentinels], name: deployment.name },
    keyPrefix: prefix(),
  });
  const work = load(backend);
  await work.more("work before the failover");
  await failover(deployment);
  await work.more("work after the failover");

  const port = await deployment.masterPort();
  await deployment.nodes.find((node) => node.port === port).kill();
  await until(async () => (await deployment.masterPort()) !== port, "the sentinels to agree");
  await work.more("work after the master died");
  await work.stop();
  for (const code of work.seen.codes) expect(HARMLESS).toContain(code);
  await backend.close();
}, 120_000);

test("Sentinel: an unknown master group is InvalidArgument", async () => {
  const deployment = await startRedisSentinel();
  stops.push(deployment.stop);
  const sentinels = deployment.sentinels.map(({ host, port }) => ({ host, port }));
  const backend = open({ target: { sentinels, name: "nobody" } });
  await expect(backend.isLocked({ key: "k" })).rejects.toMatchObject({ code: "InvalidArgument" });
  await backend.close();
}, 60_000);

test("a node of a cluster as a plain server is an error that says what to do", async () => {
  const cluster = await startRedisCluster();
  stops.push(cluster.stop);
  const errors = await Promise.all(
    cluster.urls.map(async (target) => {
      const backend = open({ target, keyPrefix: "plain" });
      const error = await backend.acquire({ key: "k", ttlMs: 1000 }).catch((thrown) => thrown);
      await backend.close();
      return error;
    }),
  );
  for (const error of errors) {
    expect(error).toMatchObject({ code: "InvalidArgument" });
    expect(error.message).toContain("Cluster");
  }
}, 60_000);
