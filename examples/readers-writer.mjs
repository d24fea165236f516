// Readers and a writer: an index of two files that belong together. Any number of processes read it at
// the same time, and nobody reads it while it is half rebuilt.
//
//   SYNCGUARD_URL=redis://… node examples/readers-writer.mjs rebuild /srv/index 7
//   SYNCGUARD_URL=redis://… node examples/readers-writer.mjs read /srv/index 20

import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { lock } from "syncguard";

const [command, folder, number = "1"] = process.argv.slice(2);
const file = (name) => join(folder, `${name}.json`);
const key = `index:${folder}`;
const acquisition = { timeoutMs: 30_000 };

/** The writer. Without a `mode` its lock is exclusive. Readers that come later wait until it is done. */
async function rebuild(version) {
  await lock(
    async ({ throwIfLost }) => {
      await writeFile(file("terms"), JSON.stringify({ version }));
      await sleep(200); // the rest of the work
      throwIfLost();
      await writeFile(file("pages"), JSON.stringify({ version }));
    },
    { key, acquisition },
  );
  console.log(`rebuilt as version ${version}`);
}

/** A reader. It works beside other readers, but not beside a writer. */
async function read() {
  const [terms, pages] = await lock(
    async () => {
      const read = async (name) => JSON.parse(await readFile(file(name), "utf8"));
      const terms = await read("terms");
      await sleep(20); // the search
      return [terms, await read("pages")];
    },
    { key, mode: "shared", acquisition },
  );
  if (terms.version !== pages.version) throw new Error("the two files do not belong together");
  return terms.version;
}

try {
  if (command === "rebuild") {
    await rebuild(Number(number));
  } else {
    for (let count = Number(number); count > 0; count -= 1) {
      console.log(`read version ${await read()}`);
    }
  }
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
}
