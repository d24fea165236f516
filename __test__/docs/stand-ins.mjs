// What the code in the documents uses without showing it, for running it.
import { setTimeout as sleep } from "node:timers/promises";

for (const name of [
  ...["chargeCard", "writeReport", "sendReport", "sendNewsletter", "rebuildIndex"],
  ...["callSlowApi", "processJobs", "doWork", "handle"],
]) {
  globalThis[name] = () => sleep(1);
}

const batches = [["a", "b"], ["c"]];
globalThis.nextBatch = async () => batches.shift();
