// Helpers for tests of a spread cluster: the places of locks, moving slots, and load that detects mistakes.

import { setTimeout as sleep } from "node:timers/promises";
import { until } from "../fixtures/wait.js";
import { repeat } from "./load.js";

/** The tags of the stored format, by the number in a lockId. */
export const TAGS = [
  ...["05t", "1od", "2mz", "3z0", "41m", "51w", "63i", "7xz"],
  ...["82u", "9gd", "a4f", "bdz", "c6z", "dd4", "eet", "ff0"],
];

const BASE64URL = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/** Returns the number of the tag from a lockId. */
export const placeOf = (lockId) => BASE64URL.indexOf(lockId.at(-1)) & 15;

/** Returns a key for each shard. */
export async function keysOfAllPlaces(backend) {
  const keys = [];
  for (let number = 0; keys.filter(Boolean).length < TAGS.length; number += 1) {
    const key = `k${number}`;
    const held = await backend.acquire({ key, ttlMs: 30_000 });
    keys[placeOf(held.lockId)] ??= key;
    await held.release();
  }
  return keys;
}

/** Returns the node that serves a shard. */
export async function ownerOf(cluster, place) {
  return until(async () => {
    for (const node of cluster.nodes) {
      const answer = await node.cli("exists", `{${TAGS[place]}}`).catch(() => "unreachable");
      if (/^\d+$/.test(answer)) return node;
    }
  }, "a node with this slot");
}

/** Returns the shards of each node. */
export async function placesByNode(cluster) {
  const places = new Map(cluster.nodes.map((node) => [node, []]));
  for (const place of TAGS.keys()) places.get(await ownerOf(cluster, place)).push(place);
  return places;
}

/** Moves a slot from one node to another, as an administrator's tool does. */
export async function startMove(cluster, place, to) {
  const from = await ownerOf(cluster, place);
  const slot = await from.cli("cluster", "keyslot", `{${TAGS[place]}}`);
  const [fromId, toId] = await Promise.all([from, to].map((node) => node.cli("cluster", "myid")));
  await to.cli("cluster", "setslot", slot, "importing", fromId);
  await from.cli("cluster", "setslot", slot, "migrating", toId);
  const keys = async () =>
    (await from.cli("cluster", "getkeysinslot", slot, "1000")).split("\n").filter(Boolean);
  const move = (key) => from.cli("migrate", "127.0.0.1", String(to.port), key, "0", "5000");
  return {
    keys,
    move,
    async finish() {
      await until(async () => {
        const left = await keys();
        for (const key of left) await move(key);
        return left.length === 0;
      }, "all keys to be moved");
      for (const node of [to, from, ...cluster.nodes]) {
        await node.cli("cluster", "setslot", slot, "node", toId);
      }
    },
  };
}

/** Starts two workers for each key that lock and release until they are stopped. */
export function load(backend, keys, ttlMs = 20_000) {
  const mistakes = [];
  const [inside, fences] = [new Set(), new Map()];
  const work = repeat([...keys, ...keys], async (key) => {
    try {
      const held = await backend.acquire({ key, ttlMs });
      if (!held.ok) {
        await sleep(2);
        return false;
      }
      if (inside.has(key)) mistakes.push("two holders");
      if (held.fence <= (fences.get(key) ?? "")) mistakes.push("a fence that goes back");
      inside.add(key);
      fences.set(key, held.fence);
      await sleep(1);
      inside.delete(key);
      const { ok } = await held.release();
      if (!ok) mistakes.push("a lock that was lost");
      return true;
    } catch (error) {
      inside.delete(key);
      throw error;
    }
  });
  return { ...work, seen: Object.assign(work.seen, { mistakes }) };
}
