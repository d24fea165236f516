// A fenced write in Firestore: the document keeps the fence of whoever wrote it last, and the
// transaction that writes refuses a lower one. Firestore runs the transaction again when the document
// changed since it was read, so nothing comes between check and write.
//
//   GOOGLE_CLOUD_PROJECT=my-project node examples/fenced-firestore.mjs daily
//
// To see a write refused, suspend it while it works (Ctrl-Z), run it again in another terminal, which
// gets the lock as soon as the first one's has expired, and wake the first one (fg).

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
    // Fences have 15 digits each, so that they compare as strings.
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
      // The work. What suspends a process here lets the lock expire, and no check in this process
      // could tell in time: it may as well be suspended right after the check.
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
