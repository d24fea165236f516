// Measures processes that hold keys, and others that wait for them.
import { setTimeout as sleep } from "node:timers/promises";
import { now, startProcess, toMs } from "../../__test__/handover/process.js";

const WORKER = new URL("./worker.mjs", import.meta.url);
const BATCH = 8;
const PAIRS = 5;
const HOLD_MS = 1_500;
const APART_MS = 60;
const WORK_MS = 5;

export async function startProcesses(count, worker = WORKER) {
  const list = [];
  await inBatches(Array.from({ length: count }), async () => {
    list.push(await startProcess(worker));
  });
  const open = (one, name, target) => one.call("open", { name, target });
  return {
    list,
    async open(name, target) {
      // The first process creates what the others share.
      await open(list[0], name, target);
      await inBatches(list.slice(1), (one) => open(one, name, target));
    },
    close: () => Promise.all(list.map((one) => one.call("close"))),
    stop: () => Promise.all(list.map((one) => one.kill())),
  };
}

/** Starts the processes one by one, because they would slow each other down. */
async function inBatches(items, work) {
  for (let at = 0; at < items.length; at += BATCH) {
    await Promise.all(items.slice(at, at + BATCH).map(work));
  }
}

/** Lets one process hold the keys and the others wait for them. */
export const startPairs = () => startProcesses(1 + PAIRS);

let keys = 0;

/**
 * Each of the waiters waits for a key of its own, which is held for about 1.5 s. `taken` tells how many commands the server was sent since the last call.
 */
export async function handOver({ list: [holder, ...waiters] }, taken = () => {}) {
  const pairs = waiters.map((waiter) => ({ waiter, key: `handover-${keys++}` }));
  for (const { key } of pairs) await holder.call("hold", key);
  await taken();
  const startedAt = now();
  for (const pair of pairs) pair.waited = pair.waiter.call("wait", { key: pair.key });
  await sleep(HOLD_MS);
  const commands = await taken();
  const waitedMs = toMs(now() - startedAt);
  const freed = [];
  for (const { key } of pairs) {
    freed.push(await holder.call("release", key));
    await sleep(APART_MS * (0.5 + Math.random()));
  }
  const samples = [];
  for (const [index, { waited }] of pairs.entries()) {
    const { ranAt, cpu, failed } = await waited;
    samples.push(failed ? { failed } : { ms: toMs(ranAt - freed[index]), cpu: cpu * 100 });
  }
  return { samples, commandsPerSecond: commands / waiters.length / (waitedMs / 1000) };
}

/** Lets all processes want one key at the same moment. */
export async function crowd({ list }) {
  const key = `crowd-${keys++}`;
  const at = now() + 1_000_000_000n;
  const asked = list.map((one) => one.call("wait", { key, at, workMs: WORK_MS }));
  const outcomes = await Promise.all(asked);
  const last = Math.max(...outcomes.map(({ endedAt }) => toMs(endedAt - at)));
  const waits = outcomes.map(({ askedAt, ranAt, endedAt }) => toMs((ranAt ?? endedAt) - askedAt));
  return {
    drainMs: last,
    timeouts: outcomes.filter(({ failed }) => failed).length,
    longestMs: Math.max(...waits),
  };
}
