// Leader election: of all processes that run this program, one leads. If the leader dies, another
// takes over once its lock has expired. If the leader shuts down (Ctrl-C, SIGTERM), another takes over
// at once.
//
//   SYNCGUARD_URL=redis://cache.internal:6379 node examples/leader.mjs
//
// Without SYNCGUARD_URL the processes of this host elect a leader among themselves.

import { setTimeout as sleep } from "node:timers/promises";
import { lead } from "syncguard";

const [role = "dispatcher"] = process.argv.slice(2);
const shutdown = new AbortController();
for (const name of ["SIGINT", "SIGTERM"]) process.once(name, () => shutdown.abort());

/** Leads until the process shuts down or loses the lead, for example because it was suspended. */
async function serve({ fence, signal }) {
  console.log(`leading, fence ${fence}`);
  while (!signal.aborted) {
    // The work, in small steps. Fence every write, as the examples of fenced writes do.
    await sleep(200, undefined, { signal }).catch(() => {});
  }
  console.log("stopped leading");
}

try {
  console.log("waiting to be elected");
  // lead() rejoins the election after a lost lead, and waits for as long as it takes.
  await lead(serve, { key: `leader:${role}`, ttlMs: 3_000, signal: shutdown.signal });
} catch (error) {
  // "Aborted" means that the process shut down while it waited, which is not an error.
  if (error.code !== "Aborted") {
    console.error(error.message);
    process.exitCode = 1;
  }
}
