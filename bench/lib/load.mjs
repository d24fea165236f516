// The load generators. Each runs for a given time and returns plain numbers.
import { mainThreadCpu, processCpu } from "./cpu.mjs";
import { quantile } from "./statistics.mjs";

// Operations between two reads of the clock: a read after every operation would slow fast ones.
const BATCH = 16;

/** Runs one operation at a time. Returns latency and main-thread CPU in µs per operation. */
export async function oneInFlight(contestant, ms) {
  const key = `${contestant.name}:single`;
  const latencies = [];
  const cpu = mainThreadCpu();
  const start = performance.now();
  let now = start;
  while (now - start < ms) {
    const before = now;
    await contestant.acquireRelease(key);
    now = performance.now();
    latencies.push(now - before);
  }
  return {
    p50: quantile(latencies, 0.5) * 1000,
    p99: quantile(latencies, 0.99) * 1000,
    mean: ((now - start) / latencies.length) * 1000,
    cpu: (mainThreadCpu() - cpu) / latencies.length / 1000,
  };
}

/** Keeps `count` operations in flight, each on its own key. Returns throughput and CPU. */
export async function manyInFlight(contestant, count, ms, serverPid) {
  let operations = 0;
  const cpu = mainThreadCpu();
  const serverCpu = processCpu(serverPid);
  const start = performance.now();
  const lane = async (index) => {
    const key = `${contestant.name}:${index}`;
    do {
      for (let i = 0; i < BATCH; i++) await contestant.acquireRelease(key);
      operations += BATCH;
    } while (performance.now() - start < ms);
  };
  await Promise.all(Array.from({ length: count }, (_, index) => lane(index)));
  const elapsed = performance.now() - start;
  return {
    throughput: (operations / elapsed) * 1000,
    cpu: (mainThreadCpu() - cpu) / operations / 1000,
    serverShare: ((processCpu(serverPid) - serverCpu) / 1e6 / elapsed) * 100,
  };
}

/** Lets `workers` compete for one key through the library's run-under-lock helper. */
export async function oneKey(contestant, workers, ms) {
  const key = `${contestant.name}:contended`;
  const start = performance.now();
  let operations = 0;
  let inside = 0;
  const worker = async () => {
    while (performance.now() - start < ms) {
      await contestant.runUnderLock(key, async () => {
        if (++inside !== 1) throw new Error(`${contestant.name}: two holders at once`);
        await undefined;
        inside--;
        operations++;
      });
    }
  };
  await Promise.all(Array.from({ length: workers }, worker));
  return { throughput: (operations / (performance.now() - start)) * 1000 };
}
