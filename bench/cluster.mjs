// Compares locks spread over the masters of a Redis Cluster with locks in one slot of the same cluster:
// the share of each master, the throughput, and an estimate for masters on separate machines.
import { startRedisCluster } from "../scripts/servers.mjs";
import { LAYOUTS, open, round } from "./cluster/measure.mjs";
import { bars, report } from "./cluster/report.mjs";
import { keep } from "./lib/keep.mjs";
import { progress } from "./lib/progress.mjs";

const quick = process.argv.includes("--quick");
const MASTERS = [3, 6];
const IN_FLIGHT = [64, 256];
const ROUNDS = quick ? 2 : 7;
const MS = quick ? 500 : 2_000;

const bar = progress("cluster", MASTERS.length * IN_FLIGHT.length * ROUNDS * LAYOUTS.length);
const results = [];
for (const masters of MASTERS) {
  const cluster = await startRedisCluster({ masters });
  try {
    const backends = await open(cluster);
    for (const inFlight of IN_FLIGHT) {
      for (let number = 0; number < ROUNDS; number++) {
        // Alternate, so that a slow minute of the machine affects both.
        for (const layout of number % 2 ? LAYOUTS : LAYOUTS.toReversed()) {
          bar.step(`${masters} masters, ${inFlight} in flight: ${layout.name}`);
          const measured = await round(cluster, backends.get(layout), inFlight, MS);
          results.push({ masters, inFlight, layout: layout.name, ...measured });
        }
      }
    }
    for (const backend of backends.values()) await backend.close();
  } finally {
    await cluster.stop();
  }
}
bar.end();
keep("cluster", report({ results, rounds: ROUNDS, ms: MS }), bars(results));
