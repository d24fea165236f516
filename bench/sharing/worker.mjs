// One process of the benchmark: holds what is wished, waits for it, or takes turns with others.
import { setTimeout as sleep } from "node:timers/promises";
import { deferred } from "../../__test__/fixtures/wait.js";
import { now, serve, toMs } from "../../__test__/handover/process.js";
import { CONTESTANTS } from "./contestants.mjs";

let contestant;
const holds = new Map();

const cpuMs = () => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
};

process.on("disconnect", () => process.exit());

serve({
  async open({ name, target, warmUp }) {
    contestant = await CONTESTANTS[name].open(target);
    // Connect and warm up the code before measuring.
    for (let time = 0; time < 5; time++) await contestant.run(warmUp, () => {});
  },

  close: () => contestant.close(),

  /** Resolves when the lock is held. */
  hold: ({ id, wish }) =>
    new Promise((resolve, reject) => {
      const work = async () => {
        const freed = deferred();
        holds.set(id, freed);
        resolve();
        await freed.promise;
      };
      contestant.run(wish, work).catch(reject);
    }),

  /** Returns when the work under the lock was over. */
  async release(id) {
    const at = now();
    holds.get(id).resolve();
    return at;
  },

  async wait(wish) {
    const askedAt = now();
    const before = cpuMs();
    let ranAt, cpu;
    await contestant.run(wish, () => {
      ranAt = now();
      cpu = (cpuMs() - before) / toMs(ranAt - askedAt);
    });
    return { ranAt, cpu };
  },

  /** Lets workers take turns for `ms`. Each wish is drawn from `wishes`. */
  async takeTurns({ wishes, workers, ms, workMs }) {
    const before = cpuMs();
    const end = performance.now() + ms;
    let turns = 0;
    const worker = async () => {
      while (performance.now() < end) {
        const wish = wishes[Math.floor(Math.random() * wishes.length)];
        await contestant.run(wish, () => sleep(workMs));
        if (performance.now() < end) turns += 1;
      }
    };
    await Promise.all(Array.from({ length: workers }, worker));
    return { turns, cpuMs: cpuMs() - before };
  },
});
