// A fenced write in Firestore: the document stores the fence of its last writer, and the transaction
// that writes refuses a lower one. If the document changed after it was read, Firestore runs the
// transaction again, so no other write can come between the check and the write.
//
//   GOOGLE_CLOUD_PROJECT=my-project node examples/fenced-firestore.mjs daily
//
// To see a write refused, suspend the program while it works (Ctrl-Z) and run it again in another
// terminal. That one gets the lock as soon as the first one's has expired. Then resume the first (fg).

import { setTimeout as sleep } from "node:timers/promises";
import { Firestore } from "@google-cloud/firestore";
import { lock } from "syncguard";
import { createFirestoreBackend } from "syncguard/firestore";

const [name = "daily", workMs = "5000"] = process.argv.slice(2);
const firestore = new Firestore();
const backend = createFirestoreBackend();
const report = firestore.collection("reports").doc(name);

async function writeReport(body, fence) {
  const written = await firestore.runTransaction(async (transaction) => {
    const highest = (await transaction.get(report)).get("fence");
    // All fences have 15 digits, so they can be compared as strings.
    if (highest !== undefined && fence < highest) return false;
    transaction.set(report, { body, fence });
    return true;
  });
  if (!written) throw new Error(`refused: a later holder has written, ${fence} is too old`);
  console.log(`${fence} wrote "${body}"`);
}

try {
  await lock(
    backend,
    async ({ fence }) => {
      await writeReport("in progress", fence);
      // The work. If the process is suspended here, its lock expires. A check in this process cannot
      // prevent that, since the process may be suspended right after the check.
      await sleep(Number(workMs));
      await writeReport(`done by process ${process.pid}`, fence);
    },
    { key: `report:${name}`, ttlMs: 2_000, autoExtend: true, acquisition: { timeoutMs: 30_000 } },
  );
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
} finally {
  await backend.close();
  await firestore.terminate();
}
