import { createRedisBackend } from "syncguard/redis";
import { mainThreadCpu, processCpu } from "../lib/cpu.mjs";

const TTL_MS = 30_000;
/** Enough keys for even shares, and few enough that all counters exist soon. */
const KEYS = 20_000;

export const SPREAD = "spread";
export const ONE_SLOT = "one slot";

export const LAYOUTS = [
  { name: SPREAD, keyPrefix: "bench" },
  { name: ONE_SLOT, keyPrefix: "{bench}" },
];

/** Opens a backend for each layout, connects it and loads the scripts. */
export async function open(cluster) {
  const backends = new Map();
  for (const layout of LAYOUTS) {
    const backend = createRedisBackend({ cluster: [cluster.url] }, { keyPrefix: layout.keyPrefix });
    backends.set(layout, backend);
    await load(backend, 64, 300);
  }
  return backends;
}

/** Runs one round of acquire and release, and measures what it costs each master and the client. */
export async function round(cluster, backend, inFlight, ms) {
  const before = await look(cluster);
  const { pairs, elapsedMs } = await load(backend, inFlight, ms);
  const after = await look(cluster);
  const calls = after.calls.map((count, i) => count - before.calls[i]);
  return {
    throughput: (pairs / elapsedMs) * 1000,
    calls,
    /** In microseconds for each pair. */
    cost: {
      servers: (after.servers - before.servers) / pairs / 1000,
      client: (after.client - before.client) / pairs,
      mainThread: (after.mainThread - before.mainThread) / pairs / 1000,
    },
  };
}

/** Returns keys in an order in which no two in flight are equal. */
async function load(backend, inFlight, ms) {
  let pairs = 0;
  let next = 0;
  const start = performance.now();
  const lane = async () => {
    while (performance.now() - start < ms) {
      next = (next + 1) % KEYS;
      const held = await backend.acquire({ key: `orders:${next}`, ttlMs: TTL_MS });
      if (!held.ok) throw new Error("not acquired");
      await held.release();
      pairs += 1;
    }
  };
  await Promise.all(Array.from({ length: inFlight }, lane));
  return { pairs, elapsedMs: performance.now() - start };
}

/** Returns the counters of all masters and the client. */
async function look({ nodes }) {
  const calls = await Promise.all(nodes.map(scriptCalls));
  const { user, system } = process.cpuUsage();
  return {
    calls,
    servers: nodes.reduce((sum, { server }) => sum + processCpu(server.pid), 0),
    client: user + system,
    mainThread: mainThreadCpu(),
  };
}

async function scriptCalls(node) {
  const stats = await node.cli("info", "commandstats");
  const counts = stats.matchAll(/^cmdstat_eval(?:sha)?:calls=(\d+)/gm);
  return [...counts].reduce((sum, [, count]) => sum + Number(count), 0);
}
