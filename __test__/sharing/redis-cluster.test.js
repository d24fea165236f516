// Sharing on a Redis Cluster, where the keys of a set are on different nodes.

import { expect } from "vitest";
import { startRedisCluster } from "../../scripts/servers.mjs";
import { keysOfAllPlaces, placesByNode } from "../redis/cluster.js";
import { sharing } from "./suite.js";

let cluster;

async function start() {
  cluster = await startRedisCluster();
  return { config: { target: { cluster: [cluster.url] } }, stop: () => cluster.stop() };
}

/** Two keys on each of the nodes. */
async function sixKeys({ backend }) {
  const keys = await keysOfAllPlaces(backend);
  const places = [...(await placesByNode(cluster)).values()];
  expect(places).toHaveLength(3);
  return places.flatMap((own) => own.slice(0, 2).map((place) => keys[place]));
}

sharing("a Redis Cluster", {
  module: new URL("../redis/open.js", import.meta.url),
  start,
  sixKeys,
});
