// What happened, as it is recorded: one file for each process, to which it appends a line of JSON for
// each event. A line is written before the process goes on, so that what was recorded outlives it.

import { openSync, readdirSync, readFileSync, writeSync } from "node:fs";
import { join } from "node:path";

/** Milliseconds on the one clock that all processes of a host share. */
export const now = () => Math.round(Number(process.hrtime.bigint()) / 1e3) / 1e3;

export class Recorder {
  #file;
  #process;

  /**
   * @param {string} folder
   * @param {string} process
   */
  constructor(folder, process) {
    this.#file = openSync(join(folder, `${process}.jsonl`), "a");
    this.#process = process;
  }

  /** `t` is the time of the event unless `fields` has another. */
  tell(e, fields = {}) {
    writeSync(this.#file, `${JSON.stringify({ e, t: now(), p: this.#process, ...fields })}\n`);
  }
}

/** All events of a run, in no order. */
export function* readEvents(folder) {
  for (const name of readdirSync(folder).filter((file) => file.endsWith(".jsonl"))) {
    const lines = readFileSync(join(folder, name), "utf8").split("\n");
    // Who was killed may have left the last line half-written.
    const torn = lines.pop();
    for (const line of lines) yield JSON.parse(line);
    if (torn && !name.startsWith("worker-")) throw new Error(`${name} ends within a line`);
  }
}
