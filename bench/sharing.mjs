// Measures semaphores and several keys: how many turns workers of several processes take, how soon
// another process gets what was released, and what waiting costs.
import Redis from "ioredis";
import { startRedis } from "../scripts/servers.mjs";
import { countRedis } from "./handover/stores.mjs";
import { keep } from "./lib/keep.mjs";
import { progress } from "./lib/progress.mjs";
import { CONTESTANTS } from "./sharing/contestants.mjs";
import { handOver, startContestant, takeTurns, WISHES } from "./sharing/measure.mjs";
import { bars, report } from "./sharing/report.mjs";

const quick = process.argv.includes("--quick");
const ROUNDS = quick ? 1 : 5;
const HAND_OVERS = quick ? 1 : 3;
const TURNS_MS = quick ? 1_000 : 3_000;

const results = Object.keys(WISHES).flatMap((kind) =>
  Object.entries(CONTESTANTS)
    .filter(([, { wishes }]) => wishes.includes(kind))
    .map(([name]) => ({ name, kind, turns: [], samples: [] })),
);
const server = await startRedis();

/** Returns the contestants in another order each round, so that none has the best place. */
const inOrder = (round) => results.map((_, at) => results[(at + round) % results.length]);

async function measure(result) {
  const { name, kind, turns, samples } = result;
  const processes = await startContestant(name, kind, server.url);
  turns.push(await takeTurns(processes, kind, TURNS_MS));
  // The first is not counted, because connections and caches are created then.
  await handOver(processes, kind);
  for (let time = 0; time < HAND_OVERS; time++) {
    samples.push(...(await handOver(processes, kind)).samples);
  }
  await processes.stop();
}

/** Counts commands in a round of its own, because counting slows the server. */
async function count(result) {
  const { name, kind } = result;
  const counter = await countRedis(server.url);
  const processes = await startContestant(name, kind, server.url);
  await handOver(processes, kind);
  const { commandsPerSecond } = await handOver(processes, kind, counter.taken);
  result.commandsPerSecond = commandsPerSecond;
  await processes.stop();
  counter.stop();
}

const redis = new Redis(server.url);
try {
  const bar = progress("sharing", results.length * (ROUNDS + 1));
  for (let round = 0; round < ROUNDS; round++) {
    for (const result of inOrder(round)) {
      bar.step(`${result.kind}: ${result.name}`);
      await measure(result);
      // Whatever the killed processes held must not be in the way of the next.
      await redis.flushall();
    }
  }
  for (const result of results) {
    bar.step(`commands, ${result.kind}: ${result.name}`);
    await count(result);
    await redis.flushall();
  }
  bar.end();
  keep("sharing", report(results), bars(results));
} finally {
  redis.disconnect();
  await server.stop();
}
