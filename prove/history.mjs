// The record of a run: each process appends one line of JSON per event to a file of its own. It writes
// a line before it continues, so the record survives when the process is killed.

import { openSync, readdirSync, readFileSync, writeSync } from "node:fs";
import { join } from "node:path";

/** Returns milliseconds of the clock that all processes of a host share. */
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

/** Reads all events of a run, in no particular order. */
export function* readEvents(folder) {
  for (const name of readdirSync(folder).filter((file) => file.endsWith(".jsonl"))) {
    const lines = readFileSync(join(folder, name), "utf8").split("\n");
    // A killed process may have left its last line incomplete.
    const torn = lines.pop();
    for (const line of lines) yield JSON.parse(line);
    if (torn && !name.startsWith("worker-")) throw new Error(`${name} ends within a line`);
  }
}
