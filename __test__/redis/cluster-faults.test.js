// A spread cluster whose masters die, join, leave, and move slots.

import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, describe, expect, test } from "vitest";
import { startRedisCluster } from "../../scripts/servers.mjs";
import { lock } from "../fixtures/api.js";
import { size } from "../fixtures/size.js";
import { NOISE_MS, until } from "../fixtures/wait.js";
import { keysOfAllPlaces, load, ownerOf, placesByNode, startMove } from "./cluster.js";
import { open, prefix } from "./open.js";

const HARMLESS = ["ServiceUnavailable", "NetworkTimeout"];

const stops = [];
afterAll(() => Promise.all(stops.map((stop) => stop())));

async function start(options) {
  const cluster = await startRedisCluster(options);
  stops.push(cluster.stop);
  return cluster;
}

function connect(cluster, options) {
  const nodes = cluster.nodes.map(({ host, port }) => ({ host, port }));
  const tls = cluster.tls && { ca: cluster.tls.ca };
  return open({ target: { cluster: nodes, tls }, keyPrefix: prefix(), ...options });
}

function expectHarmless({ seen }) {
  for (const code of seen.codes) expect(HARMLESS).toContain(code);
}

describe(size("without TLS", "with TLS"), () => {
  const options = size({}, { tls: true });

  test("a master dies and its replica takes over", async () => {
    const cluster = await start({ replicas: 1, ...options });
    const backend = connect(cluster);
    const keys = await keysOfAllPlaces(backend);
    const owner = await ownerOf(cluster, 0);
    const mine = (await placesByNode(cluster)).get(owner).map((place) => keys[place]);
    // A lock that could not be released is free when its TTL ends.
    const work = load(backend, keys, 2_000);
    await work.more("work before the failure");
    await owner.kill();
    const again = load(backend, mine, 2_000);
    await again.more("work in the places of the dead master");
    await Promise.all([again.stop(), work.stop()]);
    // Replication is asynchronous, so a lock or a fence may be lost, but no key may stay locked.
    expectHarmless(work);
    expectHarmless(again);
    await backend.close();
  }, 120_000);

  test("slots that are in use move to a node that joins, and back before it leaves", async () => {
    const cluster = await start(options);
    const backend = connect(cluster, { connectTimeoutMs: 20_000 });
    const keys = await keysOfAllPlaces(backend);
    const long = await Promise.all(
      keys.map((key) => backend.acquire({ key: `${key}:long`, ttlMs: 100_000 })),
    );
    const work = load(backend, keys);
    await work.more("work before the move");
    const homes = new Map();
    const joined = await cluster.join();
    for (const place of [0, 1, 7, 15]) {
      homes.set(place, await ownerOf(cluster, place));
      await (await startMove(cluster, place, joined)).finish();
      await work.more("work after a move");
    }
    for (const held of long) expect(await held.extend(90_000)).toMatchObject({ ok: true });
    for (const [place, home] of homes) {
      await (await startMove(cluster, place, home)).finish();
    }
    await work.more("work after all moves");
    await cluster.leave(joined);
    await work.more("work after the node has left");
    await work.stop();
    expect(work.seen.mistakes).toEqual([]);
    expect([...work.seen.codes]).toEqual([]);
    for (const held of long) expect(await held.release()).toEqual({ ok: true });
    await backend.close();
  }, 120_000);
});

test.each(["the index", "the lock", "the counter"])(
  "of a held lock only %s has been moved yet: nothing is lost",
  async (first) => {
    const cluster = await start();
    const keyPrefix = prefix();
    const backend = connect(cluster, { keyPrefix, connectTimeoutMs: 20_000 });
    const other = connect(cluster, { keyPrefix, connectTimeoutMs: 20_000 });
    const [key] = await keysOfAllPlaces(backend);
    const held = await backend.acquire({ key, ttlMs: 60_000 });
    const from = await ownerOf(cluster, 0);
    const move = await startMove(
      cluster,
      0,
      cluster.nodes.find((node) => node !== from),
    );
    const kind = (name) =>
      name.includes(":id:") ? "the index" : name.includes(":fence:") ? "the counter" : "the lock";
    const names = (await move.keys()).filter((name) => name.endsWith(key) || kind(name) === first);
    await move.move(names.find((name) => kind(name) === first));

    const asked = {
      extended: held.extend(60_000),
      found: other.lookup({ lockId: held.lockId }),
      another: other.acquire({ key, ttlMs: 1_000 }),
    };
    await sleep(300);
    await move.finish();
    expect(await asked.extended).toMatchObject({ ok: true });
    expect(await asked.found).toMatchObject({ fence: held.fence });
    expect(await asked.another).toMatchObject({ ok: false });
    expect(await held.release()).toEqual({ ok: true });
    const next = await other.acquire({ key, ttlMs: 1_000 });
    expect(Number(next.fence)).toBe(Number(held.fence) + 1);
    await Promise.all([backend.close(), other.close()]);
  },
  60_000,
);

test.each([
  ["is dead", (node) => node.kill()],
  ["stands still", (node) => node.suspend()],
])(
  "a master that %s does not slow the locks of the others",
  async (_, hurt) => {
    const cluster = await start({ config: { "cluster-require-full-coverage": "no" } });
    const keyPrefix = prefix();
    const backend = connect(cluster, { keyPrefix });
    const keys = await keysOfAllPlaces(backend);
    const victim = cluster.nodes[0];
    const hurtPlaces = (await placesByNode(cluster)).get(victim);
    const [theirs, others] = [[], []];
    for (const [place, key] of keys.entries()) {
      (hurtPlaces.includes(place) ? theirs : others).push(key);
    }
    await hurt(victim);
    // One backend is connected, and one has to find the masters first.
    const fresh = connect(cluster, { keyPrefix });
    for (const one of [backend, fresh]) {
      let going = true;
      // Each of these waits until its limit.
      const waiting = theirs.map(async (key) => {
        while (going) {
          const error = await one.acquire({ key, ttlMs: 1_000 }).catch((thrown) => thrown);
          expect(HARMLESS).toContain(error.code);
        }
      });
      const from = performance.now();
      while (performance.now() - from < 4_000) {
        await sleep(10);
        await Promise.all(
          others.map(async (key) => {
            const started = performance.now();
            await lock(one, async () => {}, { key, ttlMs: 10_000 });
            expect(performance.now() - started).toBeLessThan(NOISE_MS);
          }),
        );
      }
      going = false;
      await Promise.all(waiting);
    }
    await fresh.close();
    victim.resume?.();
    await backend.close();
  },
  60_000,
);

test("a master that was away is used again", async () => {
  const cluster = await start({ config: { "cluster-require-full-coverage": "no" } });
  const backend = connect(cluster, { connectTimeoutMs: 500 });
  const keys = await keysOfAllPlaces(backend);
  const victim = await ownerOf(cluster, 3);
  await victim.kill();
  await expect(backend.isLocked({ key: keys[3] })).rejects.toMatchObject({
    code: "ServiceUnavailable",
  });
  await victim.restart();
  await until(
    () =>
      backend.isLocked({ key: keys[3] }).then(
        () => true,
        () => false,
      ),
    "the master to be found again",
  );
  await backend.close();
}, 60_000);
