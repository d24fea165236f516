// The resource that the locks protect: a process with cells that knows nothing of locks or their store.
//
// A section reads the cells of its key and writes them later. Each update names the update that it was
// based on, so the updates of a cell form a tree. Those on the path from the root to the last update
// took effect, and all others were lost. Each key has four cells, for four ways to write under a lock:
//
//   alone    has no check
//   heeded   is written by sections that checked `isHeld()` and `signal` just before
//   written  refuses a write with a lower fence than the last write
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

  /** Returns the last update of each cell, except of cells that refuse. */
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

  /** `from` names, for each cell to write, the update that this one is based on. */
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
      if (!line.endsWith("}")) return; // The worker was killed while it wrote.
      const { n, ask, ...request } = JSON.parse(line);
      socket.write(`${JSON.stringify({ n, ...register[ask](request) })}\n`);
    });
  });
  server.listen(0, "127.0.0.1", () => process.send(server.address().port));
  process.on("disconnect", () => process.exit());
}
