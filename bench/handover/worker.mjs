// One process of the benchmark: holds keys or waits for them, and reports the times.
import { setTimeout as sleep } from "node:timers/promises";
import { now, serve, toMs } from "../../__test__/handover/process.js";
import { deferred } from "../../__test__/fixtures/wait.js";
import { CONTESTANTS } from "./contestants.mjs";

let contestant;
const holds = new Map();

const cpuMs = () => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
};

process.on("disconnect", () => process.exit());

serve({
  async open({ name, target }) {
    contestant = await CONTESTANTS[name].open(target);
    // Connect and warm up the code before measuring.
    for (let time = 0; time < 5; time++) await contestant.run(`warm-up-${process.pid}`, () => {});
  },

  close: () => contestant.close(),

  /** Resolves when the lock is held. */
  hold: (key) =>
    new Promise((resolve, reject) => {
      const work = async () => {
        const freed = deferred();
        holds.set(key, freed);
        resolve();
        await freed.promise;
      };
      contestant.run(key, work).catch(reject);
    }),

  /** Returns when the work under the lock was over. */
  async release(key) {
    const at = now();
    holds.get(key).resolve();
    return at;
  },

  /** `at`: not before that time. */
  async wait({ key, at = 0n, workMs = 0 }) {
    while (now() < at) await sleep(toMs(at - now()));
    const askedAt = now();
    const before = cpuMs();
    let ranAt, leftAt, cpu;
    try {
      await contestant.run(key, async () => {
        ranAt = now();
        cpu = (cpuMs() - before) / toMs(ranAt - askedAt);
        if (workMs) await sleep(workMs);
        leftAt = now();
      });
    } catch (error) {
      return { askedAt, failed: String(error), endedAt: now() };
    }
    return { askedAt, ranAt, endedAt: leftAt, cpu };
  },
});
