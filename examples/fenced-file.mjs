// A fenced write of a file. A file system cannot compare and replace in one step, so the fence is part
// of the file's name, and the current report is the file with the highest fence. A late write has a
// lower name, and nobody reads it. No server is needed: the locks of this host are kept beside the
// reports. (Do not use a temp directory: when it is emptied, fences begin again below the reports'.)
//
//   node examples/fenced-file.mjs reports/daily
//
// To see a write refused, suspend the program while it works (Ctrl-Z) and run it again in another
// terminal. That one gets the lock as soon as the first one's has expired. Then resume the first (fg).

import { mkdir, readdir, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { lock } from "syncguard";
import { createSqliteBackend } from "syncguard/sqlite";

const [folder = "reports/daily", workMs = "5000"] = process.argv.slice(2);
await mkdir(folder, { recursive: true });
const backend = createSqliteBackend(join(folder, "locks.db"));

/** Returns the names of all versions, the lowest fence first. Readers use the last one. */
const versions = async () =>
  (await readdir(folder)).filter((name) => /^\d{15}\.txt$/.test(name)).sort();

async function writeReport(body, fence) {
  const own = `${fence}.txt`;
  const draft = join(folder, `${fence}.draft`);
  await writeFile(draft, body, { flush: true });
  await rename(draft, join(folder, own)); // atomic, so readers see all of it or nothing
  // List the versions after the write: a later holder that wrote before it is found here, and one
  // that writes afterwards has a higher name anyway.
  const names = await versions();
  const isTooOld = names.at(-1) > own;
  const useless = isTooOld ? [own] : names.filter((name) => name < own);
  for (const name of useless) await rm(join(folder, name), { force: true });
  if (isTooOld) throw new Error(`refused: a later holder has written, ${fence} is too old`);
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
    { key: "report", ttlMs: 2_000, autoExtend: true, acquisition: { timeoutMs: 30_000 } },
  );
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
} finally {
  await backend.close();
}
