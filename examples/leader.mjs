// Leader election: of all processes that run this, one leads. When it dies, another takes over once
// its lock has expired; when it is told to end (Ctrl-C, SIGTERM), another takes over at once.
//
//   SYNCGUARD_URL=redis://… node examples/leader.mjs
//
// Without SYNCGUARD_URL the processes of this host elect one.

import { setTimeout as sleep } from "node:timers/promises";
import { lead } from "syncguard";

const [role = "dispatcher"] = process.argv.slice(2);
const shutdown = new AbortController();
for (const name of ["SIGINT", "SIGTERM"]) process.once(name, () => shutdown.abort());

/** One term: until this process is to end, or has lost the lead, for example by being suspended. */
async function serve({ fence, signal }) {
  console.log(`leads, fence ${fence}`);
  while (!signal.aborted) {
    // The work, in small steps. What it writes is fenced: see the examples of that.
    await sleep(200, undefined, { signal }).catch(() => {});
  }
  console.log("leads no more");
}

try {
  console.log("stands for election");
  // After a lost lead it stands again, and waits for as long as it takes.
  await lead(serve, { key: `leader:${role}`, ttlMs: 3_000, signal: shutdown.signal });
} catch (error) {
  // Told to end while it waited: "Aborted", and nothing is left to do.
  if (error.code !== "Aborted") {
    console.error(error.message);
    process.exitCode = 1;
  }
}
