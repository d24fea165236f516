// Limits the calls to an API: at most three at a time, in all processes that run this program together.
// The others wait for their turn, so the API never has a reason to refuse one.
//
//   SYNCGUARD_URL=redis://… node examples/api-limit.mjs https://api.example.com/charges 20
//
// This limits how many calls run at the same moment. It does not limit how many run in a minute.

import { lock } from "syncguard";

const LIMIT = 3;
const [url, calls = "20"] = process.argv.slice(2);

async function call(number) {
  return lock(
    async ({ signal }) => {
      // A lost lock ends the call, as another process may have been let in.
      const response = await fetch(`${url}?number=${number}`, { method: "POST", signal });
      if (!response.ok) throw new Error(`call ${number} was refused: ${response.status}`);
      return response.json();
    },
    // All callers of the API use this key. If it allows more, change the limit here: processes with
    // the old and the new limit may run side by side.
    { key: `api:${new URL(url).host}`, concurrency: LIMIT, acquisition: { timeoutMs: 60_000 } },
  );
}

const outcomes = await Promise.allSettled(
  Array.from({ length: Number(calls) }, (_, number) => call(number)),
);
const failed = outcomes.filter(({ status }) => status === "rejected");
for (const { reason } of failed) console.error(reason.message);
console.log(`${outcomes.length - failed.length} of ${outcomes.length} calls succeeded`);
if (failed.length > 0) process.exitCode = 1;
