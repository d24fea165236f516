// A graceful shutdown. On Ctrl-C or SIGTERM the program takes no new work, cancels what only waits for a
// lock, lets the work that runs finish for up to five seconds, and releases its locks. A second signal
// ends it at once. (Without a handler for the signal, SyncGuard releases the locks by itself.)
//
//   SYNCGUARD_URL=redis://cache.internal:6379 node examples/shutdown.mjs orders

import { setTimeout as sleep } from "node:timers/promises";
import { createBackend, LockError, lock } from "syncguard";

const [key = "orders", workMs = "1000"] = process.argv.slice(2);
const GRACE_MS = Number(process.env.GRACE_MS ?? 5_000);

const backend = createBackend();
const shutdown = new AbortController();
for (const name of ["SIGINT", "SIGTERM"]) {
  process.on(name, () => {
    if (shutdown.signal.aborted) process.exit(1); // releases the locks, too
    console.log(`${name}: shutting down`);
    shutdown.abort();
  });
}

async function work({ signal }) {
  console.log("working");
  // The lock's own signal. It aborts if the lock is lost, and at the end of the grace period.
  await sleep(Number(workMs), undefined, { signal });
  console.log("done");
}

async function workUntilShutdown() {
  while (!shutdown.signal.aborted) {
    await lock(backend, work, {
      key,
      // Only the wait: `signal` in place of `acquisition.signal` would cancel the work, too.
      acquisition: { signal: shutdown.signal, timeoutMs: Infinity },
    });
  }
}

/** Resolves once the shutdown has begun and nothing is held any more. */
async function closeAfterSignal() {
  await new Promise((resolve) => shutdown.signal.addEventListener("abort", resolve));
  await backend.close({ timeoutMs: GRACE_MS });
}

const [{ reason }] = await Promise.allSettled([workUntilShutdown(), closeAfterSignal()]);
const isCancelled = reason instanceof LockError && reason.code === "Aborted";
if (reason !== undefined && !isCancelled) {
  console.error(`stopped: ${reason.cause?.message ?? reason.message}`);
  process.exitCode = 1;
}
console.log("bye");
