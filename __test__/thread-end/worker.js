// A worker thread that ends while locks are on their way to it. The program sets a flag in `received`
// for each lock as soon as it has the lock.

import { workerData } from "node:worker_threads";
import { createBackend, hold } from "../../js/index.js";

const { url, options, keys, form, end, flags } = workerData;
const received = new Int32Array(flags);
const [STARTED, BUSY] = [keys.length, keys.length + 1];

const backend = createBackend(url, options);
// Connect first, so that all grants arrive at once.
await backend.isLocked({ key: "warm" });

const acquire = (key) =>
  form === "acquire"
    ? backend.acquire({ key, ttlMs: 600_000 })
    : hold(backend, { key, ttlMs: 600_000 });

for (const [i, key] of keys.entries()) {
  acquire(key).then(() => {
    received[i] = 1;
    if (end === "exit") process.exit();
    if (end === "busy") keepThread();
  });
}
received[STARTED] = 1;
if (end === "deaf") keepThread();

/** Waits until the thread is terminated. */
function keepThread() {
  received[BUSY] = 1;
  for (;;);
}
