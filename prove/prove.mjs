// Runs the processes and checks the record.

import { rmSync } from "node:fs";
import { model } from "./check/model.mjs";
import { summarize } from "./check/summary.mjs";
import { readEvents } from "./history.mjs";
import { run } from "./run.mjs";

/** @param {Parameters<typeof run>[0]} options */
export async function prove(options) {
  rmSync(options.folder, { recursive: true, force: true });
  await run(options);
  return summarize(model(readEvents(options.folder)));
}
