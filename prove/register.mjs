// What the locks protect: a process with cells of its own that knows nothing of locks or their store.
//
// A section reads the cells of its key and writes them later. Each update names the one that it was
// made from, so the updates of a cell are a tree: those between its root and its last are there, all
// others were lost. Each key has four cells, for four ways to write under a lock:
//
//   alone    without any check
//   heeded   by sections that asked `isHeld()` and `signal` just before
//   written  refuses a write with a lower fence than the last write's
//   fenced   refuses reads and writes with a lower fence than any before

import { createServer } from "node:net";
import { createInterface } from "node:readline";
import { now, Recorder } from "./history.mjs";

export const CELLS = ["alone", "heeded", "written", "fenced"];

class Register {
  #cells = new Map();

  constructor(recorder) {
    this.recorder = recorder;
  }

  #cell(key, name) {
    const id = `${key} ${name}`;
    if (!this.#cells.has(id)) this.#cells.set(id, { last: null, fence: "" });
    return this.#cells.get(id);
  }

  /** The last update of each cell; of a cell that refuses there is none. */
  read({ key, fence }) {
    const seen = {};
    for (const name of CELLS) {
      const cell = this.#cell(key, name);
      if (name === "fenced") {
        if (fence < cell.fence) continue;
        cell.fence = fence;
      }
      seen[name] = cell.last;
    }
    return seen;
  }

  /** `from`: the update that this one was made from, for each cell that is to be written. */
  write({ section, key, fence, from }) {
    const cells = {};
    const refused = [];
    for (const [name, parent] of Object.entries(from)) {
      const cell = this.#cell(key, name);
      if (name === "written" || name === "fenced") {
        if (fence < cell.fence) {
          refused.push(name);
          continue;
        }
        cell.fence = fence;
      }
      cells[name] = parent;
      cell.last = section;
    }
    this.recorder.tell("write", { t: now(), s: section, k: key, cells, refused });
    return { refused };
  }
}

if (process.argv[1] === import.meta.filename) {
  const register = new Register(new Recorder(process.argv[2], "register"));
  const server = createServer((socket) => {
    const lines = createInterface({ input: socket });
    lines.on("error", () => {}); // Workers are killed.
    lines.on("line", (line) => {
      if (!line.endsWith("}")) return; // Of one that was killed.
      const { n, ask, ...request } = JSON.parse(line);
      socket.write(`${JSON.stringify({ n, ...register[ask](request) })}\n`);
    });
  });
  server.listen(0, "127.0.0.1", () => process.send(server.address().port));
  process.on("disconnect", () => process.exit());
}
