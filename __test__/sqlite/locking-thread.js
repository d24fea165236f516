// A worker thread that enters and leaves the critical section repeatedly.

import { parentPort, workerData } from "node:worker_threads";
import { lock } from "../fixtures/api.js";
import { open } from "./open.js";

const { path, rounds, shared } = workerData;
const [INSIDE, OVERLAPS] = [0, 1];
const backend = open({ path });
const acquisition = {
  maxRetries: 1_000_000,
  retryDelayMs: 1,
  backoff: "fixed",
  timeoutMs: 600_000,
};
const fences = [];

for (let round = 0; round < rounds; round++) {
  await lock(
    backend,
    async ({ fence }) => {
      if (Atomics.add(shared, INSIDE, 1) !== 0) Atomics.add(shared, OVERLAPS, 1);
      fences.push(fence);
      await new Promise((resolve) => setImmediate(resolve));
      Atomics.sub(shared, INSIDE, 1);
    },
    { key: "shared", ttlMs: 60_000, acquisition },
  );
  if (round === 0) parentPort.postMessage("working");
}
await backend.close();
parentPort.postMessage(fences);
