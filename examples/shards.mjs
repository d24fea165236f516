// A fixed number of workers, each with a number of its own. Start as many processes as you like: as many
// as there are shards work, each on another one, and the rest stand by. If a worker dies, another takes
// over its number once its lock has expired. If it shuts down (Ctrl-C, SIGTERM), another does at once.
//
//   SYNCGUARD_URL=redis://… node examples/shards.mjs orders 2

import { setTimeout as sleep } from "node:timers/promises";
import { lock } from "syncguard";

const [queue = "orders", shards = "2"] = process.argv.slice(2);
const shutdown = new AbortController();
for (const name of ["SIGINT", "SIGTERM"]) process.once(name, () => shutdown.abort());

/** Works on one shard until the process shuts down or the lock is lost. */
async function work({ slot, fence, signal }) {
  console.log(`working on shard ${slot} of ${shards}, fence ${fence}`);
  while (!signal.aborted) {
    // The work: for example all orders with `id % shards === slot`. If the store checks fences, let it
    // check them per shard, because workers of different shards write at the same time.
    await sleep(100, undefined, { signal }).catch(() => {});
  }
  console.log(`stopped working on shard ${slot}`);
}

console.log("standing by");
while (!shutdown.signal.aborted) {
  try {
    await lock(work, {
      key: `shards:${queue}`,
      concurrency: Number(shards),
      ttlMs: 3_000,
      autoExtend: true,
      acquisition: { timeoutMs: Infinity, maxDelayMs: 1_000 },
      signal: shutdown.signal,
    });
  } catch (error) {
    // "Aborted" means that the process shut down while it stood by, which is not an error.
    if (error.code === "Aborted") break;
    console.error(error.message);
    await sleep(1_000, undefined, { signal: shutdown.signal }).catch(() => {});
  }
}
