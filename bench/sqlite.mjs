// Compares the SQLite backend with libraries that lock across processes without a server.
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import lockfile from "proper-lockfile";
import { createSqliteBackend } from "syncguard/sqlite";
import { npm } from "../scripts/lib/run.mjs";
import { benchmark, metric, standardScenarios } from "./lib/benchmark.mjs";
import { quantile } from "./lib/statistics.mjs";
import { pairOf } from "./lib/pair.mjs";

const rivals = join(import.meta.dirname, "rivals");
if (!existsSync(join(rivals, "node_modules"))) {
  console.log("Installing the libraries to compare with. One of them may have to be compiled.");
  await npm(["ci", "--loglevel=error"], { cwd: rivals });
}
const { openVerrou } = await import("./rivals/verrou.mjs");

const IN_FLIGHT = 32;
const folder = mkdtempSync(join(tmpdir(), "syncguard-bench-"));
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));

function syncguard(durability) {
  const backend = createSqliteBackend(join(folder, `syncguard-${durability}.db`), { durability });
  return {
    name: "syncguard/sqlite",
    acquireRelease: pairOf(backend),
    teardown: () => backend.close(),
  };
}

function verrou(durability) {
  const { acquireRelease, close } = openVerrou(join(folder, `verrou-${durability}.db`), durability);
  return { name: "@verrou/core", reference: true, acquireRelease, teardown: close };
}

// Uses directories as locks. They are never flushed to the disk, and there are no fences.
const properLockfile = {
  name: "proper-lockfile",
  async acquireRelease(key) {
    const path = join(folder, key.replaceAll(":", "-"));
    const release = await lockfile.lock(path, { realpath: false, stale: 30_000 });
    await release();
  },
};

/** Measures how long one operation takes while others are in flight. */
const crowd = {
  name: `latency, ${IN_FLIGHT} in flight`,
  async run(contestant, ms) {
    const latencies = [];
    const start = performance.now();
    const lane = async (index) => {
      let now = performance.now();
      while (now - start < ms) {
        const before = now;
        await contestant.acquireRelease(`${contestant.name}:crowd:${index}`);
        now = performance.now();
        latencies.push((now - before) * 1000);
      }
    };
    await Promise.all(Array.from({ length: IN_FLIGHT }, (_, index) => lane(index)));
    return { crowdP50: quantile(latencies, 0.5), crowdP99: quantile(latencies, 0.99) };
  },
  metrics: [
    metric("crowdP50", `p50, ${IN_FLIGHT} in flight`, "µs", "lower"),
    metric("crowdP99", `p99, ${IN_FLIGHT} in flight`, "µs", "lower"),
  ],
};

for (const durability of ["normal", "full"]) {
  await benchmark({
    name: `sqlite-${durability}`,
    title: `SQLite backend, durability "${durability}": acquire + release`,
    contestants: [syncguard(durability), verrou(durability), properLockfile],
    scenarios: [
      ...standardScenarios({ inFlight: [IN_FLIGHT] }).filter(
        ({ name }) => !name.includes("one key"),
      ),
      crowd,
    ],
  });
}
