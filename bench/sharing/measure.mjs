// Measures processes that take turns, and processes that wait for one that holds what they wish.
import { setTimeout as sleep } from "node:timers/promises";
import { now, toMs } from "../../__test__/handover/process.js";
import { startProcesses } from "../handover/measure.mjs";

const WORKER = new URL("./worker.mjs", import.meta.url);
const PROCESSES = 4;
const WORKERS = 50;
const LIMIT = 10;
const WORK_MS = 1;
const HOLD_MS = 1_500;
const APART_MS = 60;
const KEYS = 6;

let count = 0;

/**
 * What can be wished. `all` returns the wishes of workers that take turns, and `held` a wish that one
 * holder alone can keep others from, by holding it `times`.
 */
export const WISHES = {
  semaphore: {
    title: `a semaphore of ${LIMIT}`,
    all: () => [{ key: `turns-${count++}`, limit: LIMIT }],
    held: () => ({ key: `held-${count++}`, limit: 2 }),
    times: 2,
  },
  "several keys": {
    title: `three of ${KEYS} keys`,
    all: () => triples(`turns-${count++}`),
    held: () => ({ keys: keysOf(`held-${count++}`, [0, 1, 2]) }),
    times: 1,
  },
};

const keysOf = (name, numbers) => numbers.map((number) => `${name}-${number}`);

/** Returns all sets of three keys, each in an order of its own. */
function triples(name) {
  const numbers = Array.from({ length: KEYS }, (_, number) => number);
  const all = numbers.flatMap((a) =>
    numbers.flatMap((b) => numbers.filter((c) => a < b && b < c).map((c) => [a, b, c])),
  );
  return all.map((set, index) => {
    const turned = [...set.slice(index % 3), ...set.slice(0, index % 3)];
    return { keys: keysOf(name, turned) };
  });
}

/** Starts the processes of one contestant. The first of them also holds what the others wait for. */
export async function startContestant(name, kind, target) {
  const processes = await startProcesses(PROCESSES, WORKER);
  const open = (one, index) => {
    const [wish] = WISHES[kind].all();
    const warmUp = wish.keys ? { keys: [`warm-${index}`] } : { ...wish, key: `warm-${index}` };
    return one.call("open", { name, target, warmUp });
  };
  await Promise.all(processes.list.map(open));
  return processes;
}

/** All workers take turns. Returns turns per second, and the CPU time of all processes per turn. */
export async function takeTurns({ list }, kind, ms) {
  const wishes = WISHES[kind].all();
  const share = (index) =>
    Math.floor(((index + 1) * WORKERS) / PROCESSES) - Math.floor((index * WORKERS) / PROCESSES);
  const asked = list.map((one, index) =>
    one.call("takeTurns", { wishes, workers: share(index), ms, workMs: WORK_MS }),
  );
  const results = await Promise.all(asked);
  const sum = (field) => results.reduce((total, result) => total + result[field], 0);
  return { throughput: (sum("turns") / ms) * 1000, cpuPerTurn: sum("cpuMs") / sum("turns") };
}

/**
 * Each process but the first waits for something that the first holds for about 1.5 s. `taken` tells
 * how many commands the server was sent since the last call.
 */
export async function handOver({ list: [holder, ...waiters] }, kind, taken = () => {}) {
  const { held, times } = WISHES[kind];
  const pairs = waiters.map((waiter) => ({ waiter, wish: held(), id: count++ }));
  for (const { id, wish } of pairs) {
    for (let time = 0; time < times; time++) {
      await holder.call("hold", { id: `${id}.${time}`, wish });
    }
  }
  await taken();
  const startedAt = now();
  for (const pair of pairs) pair.waited = pair.waiter.call("wait", pair.wish);
  await sleep(HOLD_MS);
  const commands = await taken();
  const waitedMs = toMs(now() - startedAt);
  const freed = [];
  for (const { id } of pairs) {
    freed.push(await holder.call("release", `${id}.0`));
    await sleep(APART_MS * (0.5 + Math.random()));
  }
  const samples = [];
  for (const [index, { waited }] of pairs.entries()) {
    const { ranAt, cpu } = await waited;
    samples.push({ ms: toMs(ranAt - freed[index]), cpu: cpu * 100 });
  }
  for (const { id } of pairs) {
    for (let time = 1; time < times; time++) await holder.call("release", `${id}.${time}`);
  }
  return { samples, commandsPerSecond: commands / waiters.length / (waitedMs / 1000) };
}
