// A master that is replaced under load, and a slot that moves: the backend finds the new place by itself.

import { afterAll, expect, test } from "vitest";
import { startRedisCluster, startRedisSentinel } from "../../scripts/servers.mjs";
import { until } from "../fixtures/wait.js";
import { failover, open, prefix } from "./open.js";

/** Workers that lock and release until they are told to stop. */
function load(backend, workers = 16) {
  const seen = { ok: 0, codes: new Set() };
  let going = true;
  const running = Array.from({ length: workers }, async (_, index) => {
    while (going) {
      try {
        const held = await backend.acquire({ key: `load:${index}`, ttlMs: 2_000 });
        if (held.ok) await held.release();
        seen.ok += 1;
      } catch (error) {
        seen.codes.add(error.code);
      }
    }
  });
  return {
    seen,
    more: (what) => {
      const before = seen.ok;
      return until(() => seen.ok > before + 50, what);
    },
    async stop() {
      going = false;
      await Promise.all(running);
    },
  };
}

const HARMLESS = ["ServiceUnavailable", "NetworkTimeout"];

const stops = [];
afterAll(() => Promise.all(stops.map((stop) => stop())));

test("Sentinel: a failover that is asked for, and one because the master died", async () => {
  const deployment = await startRedisSentinel();
  stops.push(deployment.stop);
  const sentinels = deployment.sentinels.map(({ host, port }) => ({ host, port }));
  // The first sentinel of the list does not exist: the others are asked.
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

test.each([
  ["", {}],
  [" with TLS", { tls: true }],
])(
  "Cluster%s: the master of our slot dies and its replica takes over",
  async (_, options) => {
    const cluster = await startRedisCluster({ replicas: 1, ...options });
    stops.push(cluster.stop);
    const keyPrefix = prefix();
    const nodes = cluster.nodes.map(({ host, port }) => ({ host, port }));
    const tls = cluster.tls && { ca: cluster.tls.ca };
    const backend = open({ target: { cluster: nodes, tls }, keyPrefix });
    const work = load(backend);
    await work.more("work before the failure");
    const owner = await ownerOf(cluster, keyPrefix);
    await owner.kill();
    await work.more("work after the failure");
    await work.stop();
    for (const code of work.seen.codes) expect(HARMLESS).toContain(code);
    await backend.close();
  },
  120_000,
);

test("Cluster: our slot is moved, key by key, while it is used", async () => {
  const cluster = await startRedisCluster();
  stops.push(cluster.stop);
  const keyPrefix = prefix();
  const backend = open({ target: { cluster: [cluster.url] }, keyPrefix });
  const held = await backend.acquire({ key: "held", ttlMs: 60_000 });
  const work = load(backend, 4);
  await work.more("work before the move");

  const from = await ownerOf(cluster, keyPrefix);
  const to = cluster.nodes.find((node) => node !== from);
  const slot = await from.cli("cluster", "keyslot", `{${keyPrefix}}`);
  const [fromId, toId] = await Promise.all([from, to].map((node) => node.cli("cluster", "myid")));
  await to.cli("cluster", "setslot", slot, "importing", fromId);
  await from.cli("cluster", "setslot", slot, "migrating", toId);
  await until(async () => {
    const keys = (await from.cli("cluster", "getkeysinslot", slot, "100"))
      .split("\n")
      .filter(Boolean);
    for (const key of keys) {
      await from.cli("migrate", "127.0.0.1", String(to.port), key, "0", "5000");
    }
    return keys.length === 0;
  }, "all keys to be moved");
  for (const node of [to, from, ...cluster.nodes]) {
    await node.cli("cluster", "setslot", slot, "node", toId);
  }
  await work.more("work after the move");
  await work.stop();
  for (const code of work.seen.codes) expect(HARMLESS).toContain(code);
  expect(await held.release()).toEqual({ ok: true });
  expect(await ownerOf(cluster, keyPrefix)).toBe(to);
  await backend.close();
}, 120_000);

test("a node of a cluster as a plain server says what to do instead", async () => {
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

/** The node that has the slot of all keys under `keyPrefix`. */
async function ownerOf(cluster, keyPrefix) {
  const [any] = cluster.nodes;
  for (const node of cluster.nodes) {
    const answer = await node.cli("exists", `{${keyPrefix}}:x`).catch(() => "unreachable");
    if (/^\d+$/.test(answer)) return node;
  }
  return any;
}
