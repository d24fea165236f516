// A cluster whose masters share the locks: where the locks are, and that every process finds them.

import { randomBytes } from "node:crypto";
import Redis from "ioredis";
import { createCluster } from "redis";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { startRedisCluster } from "../../scripts/servers.mjs";
import { diagnose, forceRelease, hold, listLocks } from "../fixtures/api.js";
import { until } from "../fixtures/wait.js";
import { keysOfAllPlaces, ownerOf, placeOf, placesByNode, TAGS } from "./cluster.js";
import { open, prefix } from "./open.js";

let cluster, ioredis, nodeRedis;
beforeAll(async () => {
  cluster = await startRedisCluster();
  const nodes = cluster.nodes.map(({ host, port }) => ({ host, port }));
  ioredis = new Redis.Cluster(nodes);
  nodeRedis = await createCluster({ rootNodes: cluster.urls.map((url) => ({ url })) }).connect();
}, 60_000);
afterAll(async () => {
  ioredis?.disconnect();
  nodeRedis?.destroy();
  await cluster?.stop();
});

const native = (options) => open({ target: { cluster: [cluster.url] }, ...options });
const ways = {
  native,
  ioredis: (options) => open({ target: ioredis, transport: "client", ...options }),
  "node-redis": (options) => open({ target: nodeRedis, transport: "client", ...options }),
};

async function all(backend, options) {
  const locks = [];
  for await (const lock of listLocks(backend, { raw: true, ...options })) locks.push(lock);
  return locks;
}

const namesOn = async (node, keyPrefix) =>
  (await node.cli("--scan", "--pattern", `${keyPrefix}:*`)).split("\n").filter(Boolean);

test("lock, index and counter of a key are stored under the tag in its lockId", async () => {
  const keyPrefix = prefix();
  const backend = native({ keyPrefix });
  const keys = await keysOfAllPlaces(backend);
  for (const [place, key] of keys.entries()) {
    const { lockId } = await backend.acquire({ key, ttlMs: 30_000 });
    expect(placeOf(lockId)).toBe(place);
    const start = `${keyPrefix}:{${TAGS[place]}}`;
    const node = await ownerOf(cluster, place);
    expect(JSON.parse(await node.cli("get", `${start}:${key}`))).toMatchObject({ lockId, key });
    expect(await node.cli("get", `${start}:id:${lockId}`)).toBe(`${start}:${key}`);
    expect(await node.cli("get", `${start}:fence:${start}:${key}`)).toBe("2");
  }
  for (const node of cluster.nodes) {
    expect((await namesOn(node, keyPrefix)).length).toBeGreaterThanOrEqual(4 * 3);
  }
  await backend.close();
}, 60_000);

test("also if some operations of the backend were replaced", async () => {
  const backend = native({ keyPrefix: prefix() });
  const keys = await keysOfAllPlaces(backend);
  vi.spyOn(backend, "extend");
  for (const [place, key] of keys.entries()) {
    const held = await hold(backend, { key });
    expect(placeOf(held.lockId)).toBe(place);
    expect(await held.release()).toEqual({ ok: true });
  }
  await backend.close();
}, 60_000);

test("a prefix with a tag stays in its one slot", async () => {
  const name = prefix();
  const keyPrefix = `{${name}}`;
  const backend = native({ keyPrefix });
  const held = [];
  for (let i = 0; i < 30; i += 1) {
    held.push(await backend.acquire({ key: `k${i}`, ttlMs: 30_000 }));
  }
  expect(new Set(held.map(({ lockId }) => placeOf(lockId)))).toEqual(new Set([0]));
  const names = await Promise.all(cluster.nodes.map((node) => namesOn(node, keyPrefix)));
  expect(names.map(({ length }) => length).sort((a, b) => a - b)).toEqual([0, 0, 90]);
  expect(await all(backend)).toHaveLength(30);
  await backend.close();
});

test.each(Object.keys(ways))(
  "%s: every other way finds its locks by lockId",
  async (way) => {
    const keyPrefix = prefix();
    const backends = Object.fromEntries(
      Object.entries(ways).map(([name, make]) => [name, make({ keyPrefix })]),
    );
    const own = backends[way];
    const keys = await keysOfAllPlaces(own);
    for (const other of Object.values(backends)) {
      const held = await Promise.all(keys.map((key) => own.acquire({ key, ttlMs: 30_000 })));
      expect((await all(other)).map(({ key }) => key).sort()).toEqual([...keys].sort());
      for (const [place, { lockId }] of held.entries()) {
        expect(await other.isLocked({ key: keys[place] })).toBe(true);
        expect(await other.lookup({ lockId })).toMatchObject({ fence: held[place].fence });
        expect(await other.extend({ lockId, ttlMs: 20_000 })).toMatchObject({ ok: true });
        expect(await other.release({ lockId })).toEqual({ ok: true });
        expect(await own.release({ lockId })).toMatchObject({ ok: false });
      }
      expect(await all(other)).toEqual([]);
    }
    await Promise.all(Object.values(backends).map((backend) => backend.close()));
  },
  60_000,
);

test("a lockId from elsewhere is valid, and finds nothing", async () => {
  const backend = native({ keyPrefix: prefix() });
  for (let i = 0; i < 64; i += 1) {
    const lockId = randomBytes(17).toString("base64url").slice(0, 22);
    expect(await backend.release({ lockId })).toMatchObject({ ok: false });
    expect(await backend.extend({ lockId, ttlMs: 1_000 })).toMatchObject({ ok: false });
    expect(await backend.lookup({ lockId })).toBeNull();
  }
  await backend.close();
});

test.each(Object.keys(ways))(
  "%s: listLocks shows the locks of all masters, once",
  async (way) => {
    const keyPrefix = prefix();
    const backend = ways[way]({ keyPrefix });
    const neighbour = ways[way]({ keyPrefix: `${keyPrefix}x` });
    const keys = Array.from(
      { length: 400 },
      (_, i) => `${"{tag}".repeat(i % 2)}orders:${i}`,
    ).sort();
    await Promise.all(keys.map((key) => backend.acquire({ key, ttlMs: 60_000 })));
    await neighbour.acquire({ key: "other", ttlMs: 60_000 });
    const seen = (await all(backend)).map(({ key }) => key);
    // A server may return the same lock twice while its table grows.
    expect([...new Set(seen)].sort()).toEqual(keys);
    expect(seen.length).toBeLessThan(keys.length * 1.5);
    expect(await all(backend, { limit: 7 })).toHaveLength(7);
    for (const key of keys.slice(0, 20)) {
      expect(await forceRelease(backend, { key })).toEqual({ ok: true });
    }
    expect(new Set((await all(backend)).map(({ key }) => key)).size).toBe(380);
    await Promise.all([backend.close(), neighbour.close()]);
  },
  60_000,
);

/** Returns the number of connections with this name at each node. */
async function connections(name, flag = "") {
  const lists = await Promise.all(cluster.nodes.map((node) => node.cli("client", "list")));
  const ours = (line) => line.includes(` name=${name} `) && line.includes(flag);
  return lists.map((list) => list.split("\n").filter(ours).length);
}

test("two connections to each master, made when they are first needed", async () => {
  const name = prefix();
  const target = { cluster: [cluster.url], connectionName: name };
  const backend = open({ target, keyPrefix: name });
  const first = await backend.acquire({ key: "first", ttlMs: 30_000 });
  const owner = await ownerOf(cluster, placeOf(first.lockId));
  // The connections that asked for the way are closed again.
  await until(async () => {
    const counts = await connections(name);
    return counts.every((count, i) => count === (cluster.nodes[i] === owner ? 2 : 0));
  }, "a pair to one master");

  const keys = await keysOfAllPlaces(backend);
  const round = () =>
    Promise.all(keys.map(async (key) => (await backend.acquire({ key, ttlMs: 30_000 })).release()));
  await until(async () => {
    await round();
    const counts = await connections(name);
    expect(Math.max(...counts)).toBeLessThanOrEqual(2);
    return counts.every((count) => count === 2);
  }, "a pair to each master");
  await backend.close();
  await until(async () => (await connections(name)).every((count) => count === 0), "none");
}, 60_000);

test("the key's own master notifies waiters, over one connection to each master", async () => {
  const name = prefix();
  const target = { cluster: [cluster.url], connectionName: name };
  const [holder, waiter] = [native({ keyPrefix: name }), open({ target, keyPrefix: name })];
  const keys = await keysOfAllPlaces(holder);
  const held = await Promise.all(keys.map((key) => holder.acquire({ key, ttlMs: 60_000 })));
  const acquisition = { retryDelayMs: 60_000, timeoutMs: 50_000 };
  const waits = keys.map((key) => hold(waiter, { key, ttlMs: 30_000, acquisition }));
  // The flag of a connection that tracks.
  const tracking = async () => {
    const counts = await connections(name, " flags=t ");
    expect(Math.max(...counts)).toBeLessThanOrEqual(1);
    return counts.every((count) => count === 1);
  };
  await until(tracking, "a connection that tracks to each master");
  await Promise.all(held.map((lock) => lock.release()));
  const got = await Promise.all(waits);
  await Promise.all(got.map((lock) => lock.release()));
  await Promise.all([holder.close(), waiter.close()]);
}, 60_000);

test("the documented permissions are enough", async () => {
  const keyPrefix = prefix();
  const commands = "eval evalsha get set del incr decr time scan getrange client|tracking";
  const more = "cluster|slots asking";
  const allowed = `${commands} ${more}`.split(" ").map((command) => `+${command}`);
  for (const node of cluster.nodes) {
    await node.cli("acl", "setuser", "small", "on", ">secret", `~${keyPrefix}:*`, ...allowed);
  }
  const login = { username: "small", password: "secret" };
  const backend = open({ target: { cluster: [cluster.url], ...login }, keyPrefix });
  const keys = await keysOfAllPlaces(backend);
  const held = await Promise.all(keys.map((key) => backend.acquire({ key, ttlMs: 30_000 })));
  expect(await all(backend)).toHaveLength(keys.length);
  for (const lock of held) expect(await lock.release()).toEqual({ ok: true });
  await backend.close();
});

test("a report covers all masters", async () => {
  const backend = native({ keyPrefix: prefix() });
  await cluster.nodes[1].cli("config", "set", "maxmemory", "100mb");
  await cluster.nodes[1].cli("config", "set", "maxmemory-policy", "allkeys-lru");
  try {
    const findings = await diagnose(backend);
    const named = (name) => findings.find((found) => found.name === name);
    expect(named("server").value).toContain("masters: 3");
    expect(named("eviction").verdict).toBe("error");
  } finally {
    await cluster.nodes[1].cli("config", "set", "maxmemory-policy", "noeviction");
    await cluster.nodes[1].cli("config", "set", "maxmemory", "0");
  }
  await backend.close();
});

test("each master has its share of the keys", async () => {
  const backend = native({ keyPrefix: prefix() });
  const places = await placesByNode(cluster);
  const counts = new Array(TAGS.length).fill(0);
  const TOTAL = 3_000;
  for (let i = 0; i < TOTAL; i += 100) {
    const some = Array.from({ length: 100 }, (_, j) => `user:${i + j}`);
    const held = await Promise.all(some.map((key) => backend.acquire({ key, ttlMs: 30_000 })));
    for (const { lockId } of held) counts[placeOf(lockId)] += 1;
  }
  for (const own of places.values()) {
    const share = own.reduce((sum, place) => sum + counts[place], 0) / TOTAL;
    expect(share * cluster.nodes.length).toBeGreaterThan(0.8);
    expect(share * cluster.nodes.length).toBeLessThan(1.2);
  }
  await backend.close();
}, 60_000);
