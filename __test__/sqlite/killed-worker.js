// Takes locks as fast as it can until it is killed, and records its critical sections.

import { randomInt } from "node:crypto";
import { SectionLog } from "../fixtures/stress/log.js";
import { open } from "./open.js";

const { path, log: logPath, keys, ttlMs } = JSON.parse(process.argv[2]);
const backend = open({ path });
const log = new SectionLog(logPath);

async function section() {
  // The locks of killed processes stay for a while: take a random key.
  const key = keys[randomInt(keys.length)];
  const lock = await backend.acquire({ key, ttlMs });
  if (!lock.ok) return false;
  const section = log.begin(key, lock);
  if (randomInt(4) === 0) await lock.extend(ttlMs);
  log.end(section);
  await lock.release();
  return true;
}

while (!(await section()));
process.send("working");
for (;;) await section();
