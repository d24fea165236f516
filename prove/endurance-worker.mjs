// A process that runs very many operations of all kinds on one backend, and measures itself:
// `fork(endurance-worker.mjs, [JSON], { execArgv: ["--expose-gc"] })`.

import { getEventListeners } from "node:events";
import { readdirSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { hold, lock, tryLock, withTelemetry } from "../js/common.js";
import { openBackend } from "./backends.mjs";
import { randomFrom } from "./random.mjs";

const { backend: opening, operations, lanes, seed, samples } = JSON.parse(process.argv[2]);
const backend = await openBackend(opening);
const observed = withTelemetry(backend, { onEvent: () => {} });
const living = new AbortController(); // Listeners would pile up on a long-lived signal.
const { signal } = living;
const ttlMs = 5_000;
const errors = {};
let done = 0;

const patient = { timeoutMs: 10_000, maxRetries: Infinity, retryDelayMs: 10, maxDelayMs: 100 };
const impatient = { ...patient, timeoutMs: 2 };

/** Each function returns how many operations it ran. */
const KINDS = {
  async plain(key) {
    const held = await backend.acquire({ key, ttlMs, signal });
    if (!held.ok) return 1;
    await held.release(signal);
    return 2;
  },
  async full(key) {
    await using_(await hold(observed, { key, ttlMs, signal, acquisition: patient }), (held) =>
      held.extend(ttlMs),
    );
    await backend.isLocked({ key, signal });
    await backend.lookup({ key, signal });
    return 5;
  },
  async waits(_, random) {
    const key = `shared-${random.below(4)}`;
    const autoExtend = random.chance(0.5);
    const touch = (context) => void context.signal;
    await lock(backend, touch, { key, ttlMs, autoExtend, signal, acquisition: patient });
    return 2;
  },
  async timesOut(key) {
    await using_(await hold(backend, { key, ttlMs, acquisition: patient }), async () => {
      const late = lock(backend, () => {}, { key, ttlMs, signal, acquisition: impatient });
      await late.catch(note);
      await tryLock(observed, () => {}, { key, ttlMs, signal });
    });
    return 4;
  },
  async aborts(key, random) {
    const leaving = new AbortController();
    const going = backend.acquire({ key, ttlMs, signal: leaving.signal });
    setTimeout(() => leaving.abort(), random.real(0, 2));
    const held = await going;
    if (!held.ok) return 1;
    await held.release();
    return 2;
  },
};
const MIX = [
  ...new Array(20).fill("plain"),
  ...["full", "full", "full", "waits", "waits", "waits", "timesOut", "aborts"],
];

async function using_(held, act) {
  try {
    await act(held);
  } finally {
    await held.release();
  }
}

function note(error) {
  const code = error.code ?? String(error);
  errors[code] = (errors[code] ?? 0) + 1;
}

async function lane(number) {
  const random = randomFrom(`${seed} ${number}`);
  while (done < operations) {
    try {
      const key = `own-${number}-${random.below(20)}`;
      const operations = await KINDS[random.pick(MIX)](key, random);
      done += operations; // Not one expression with the await, because other workers add to it meanwhile.
    } catch (error) {
      note(error);
      done += 1;
      if (error.code === "ServiceUnavailable") await sleep(5);
    }
  }
}

const count = (folder) => {
  try {
    return readdirSync(folder).length;
  } catch {
    return 0; // Only Linux has this.
  }
};

async function measure() {
  for (let time = 0; time < 4; time++) {
    globalThis.gc();
    await sleep(1);
  }
  const { rss, heapUsed, external } = process.memoryUsage();
  return {
    operations: done,
    seconds: Math.round(performance.now() / 1000),
    ...{ rss, heapUsed, external },
    descriptors: count("/proc/self/fd"),
    threads: count("/proc/self/task"),
    handles: process.getActiveResourcesInfo().filter((name) => name !== "Timeout").length,
    listeners: getEventListeners(signal, "abort").length,
  };
}

const measured = [];
const running = Array.from({ length: lanes }, (_, number) => lane(number));
for (let sample = 1; sample <= samples; sample++) {
  while (done < (operations * sample) / (samples + 1)) await sleep(20);
  measured.push(await measure());
}
await Promise.all(running);
await sleep(500);
const idle = await measure();
await backend.close();
const closed = await measure();
process.send({ errors, measured, idle, closed }, () => process.disconnect());
