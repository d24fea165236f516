// Measures how soon another process gets a released lock, what waiting costs, and how many processes can
// share one key. Each library has its default settings.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { npm } from "../scripts/lib/run.mjs";
import { CONTESTANTS } from "./handover/contestants.mjs";
import { crowd, handOver, startPairs, startProcesses } from "./handover/measure.mjs";
import { bars, report } from "./handover/report.mjs";
import { startStores } from "./handover/stores.mjs";
import { keep } from "./lib/keep.mjs";
import { progress } from "./lib/progress.mjs";

const rivals = join(import.meta.dirname, "rivals");
if (!existsSync(join(rivals, "node_modules"))) {
  console.log("Installing the libraries to compare with. One of them may have to be compiled.");
  await npm(["ci", "--loglevel=error"], { cwd: rivals });
}

const quick = process.argv.includes("--quick");
const BLOCKS = quick ? 1 : 3;
// The first of a block is not counted, because connections and caches are created then.
const ROUNDS = quick ? 2 : 4;
const PROCESSES = quick ? 50 : 200;
const CROWDS = quick ? 1 : 3;

const contestants = Object.entries(CONTESTANTS).map(([name, one]) => ({ name, ...one }));
const inCrowd = contestants.filter((one) => one.crowd);
const stores = await startStores();

/** Runs blocks of rounds, so that a slow minute of the machine affects all contestants. */
async function measureHandOvers(bar) {
  const results = new Map(contestants.map(({ name }) => [name, { name, samples: [] }]));
  for (let block = 0; block < BLOCKS; block++) {
    for (const { name, store } of contestants) {
      bar.step(`hand-over: ${name}`);
      const pairs = await startPairs();
      await pairs.open(name, stores[store].target);
      for (let round = 0; round < ROUNDS; round++) {
        const { samples } = await handOver(pairs);
        if (round > 0) results.get(name).samples.push(...samples);
      }
      await pairs.stop();
    }
  }
  return results;
}

async function measureCommands(bar, results) {
  for (const { name, store } of contestants) {
    bar.step(`commands: ${name}`);
    const counter = await stores[store].counted?.();
    if (!counter) continue;
    const pairs = await startPairs();
    await pairs.open(name, counter.target);
    await handOver(pairs);
    const { commandsPerSecond } = await handOver(pairs, counter.taken);
    results.get(name).commandsPerSecond = commandsPerSecond;
    await pairs.stop();
    await counter.stop();
  }
}

async function measureCrowds(bar) {
  const results = inCrowd.map(({ name, store }) => ({ name, store, runs: [] }));
  bar.step(`${PROCESSES} processes start`);
  const processes = await startProcesses(PROCESSES);
  for (let run = 0; run < CROWDS; run++) {
    for (const { name, store, runs } of results) {
      bar.step(`${PROCESSES} processes: ${name}`);
      await processes.open(name, stores[store].target);
      runs.push(await crowd(processes));
      await processes.close();
    }
  }
  await processes.stop();
  return results;
}

try {
  const steps = contestants.length * (BLOCKS + 1) + inCrowd.length * CROWDS + 1;
  const bar = progress("handover", steps);
  const results = await measureHandOvers(bar);
  await measureCommands(bar, results);
  const crowds = await measureCrowds(bar);
  bar.end();
  const measured = { rounds: [...results.values()], crowds, processes: PROCESSES };
  keep("handover", report(measured), bars(measured));
} finally {
  await stores.stop();
}
