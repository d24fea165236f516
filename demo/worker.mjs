// One of the competing processes: adds 1 to the counter in a file, again and again.
import { appendFileSync, readFileSync, writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { lock } from "syncguard";

const [counter, fences, rounds, guarded] = process.argv.slice(2);

/** Reads, waits and writes, so it overwrites any write in between. */
async function addOne() {
  const before = Number(readFileSync(counter, "utf8"));
  await sleep(Math.random() * 4);
  writeFileSync(counter, String(before + 1).padStart(6), { flag: "r+" });
}

const config = {
  key: "demo:counter",
  // The critical sections are short, so retry soon and do not give up early.
  acquisition: { retryDelayMs: 2, backoff: "fixed", maxRetries: 10_000, timeoutMs: 30_000 },
};

// All workers start at the same moment, when the parent tells them to.
await new Promise((resolve) => {
  process.once("message", resolve);
  process.send("ready");
});
for (let round = 0; round < Number(rounds); round++) {
  if (guarded === "true") {
    await lock(async ({ fence }) => {
      await addOne();
      appendFileSync(fences, `${fence}\n`);
    }, config);
  } else {
    await addOne();
  }
  process.send("step");
}
process.disconnect();
