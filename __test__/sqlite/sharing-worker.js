// Shares a key with other processes until it is told to stop, and records when it holds a share.

import { openSync, writeSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { lock } from "../fixtures/api.js";
import { open } from "./open.js";

const { path, log, key, limit, workers, writers, ttlMs } = JSON.parse(process.argv[2]);
const backend = open({ path });
const file = openSync(log, "a");
let sections = 0;
let hasWorked = false;
let isStopped = false;
process.on("message", () => (isStopped = true));

async function work(config) {
  while (!isStopped) {
    const inside = async ({ slot = "-", fence, expiresAtMs }) => {
      const section = `${process.pid}.${sections++}`;
      writeSync(file, `B ${section} ${slot} ${fence} ${expiresAtMs} ${Date.now()}\n`);
      await sleep(Math.random() * 3);
      writeSync(file, `E ${section}\n`);
    };
    const acquisition = { timeoutMs: 60_000 };
    await lock(backend, inside, { key, ttlMs, acquisition, ...config });
    if (!hasWorked) process.send("working");
    hasWorked = true;
  }
}

await Promise.all([
  ...Array.from({ length: workers }, () => work({ concurrency: limit })),
  ...Array.from({ length: writers }, () => work({})),
]);
await backend.close();
process.disconnect();
