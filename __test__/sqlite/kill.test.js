// A process may be killed at any moment: the file stays usable, no fence is used twice, and no lock
// outlasts its TTL.

import { fork } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { TIME_TOLERANCE_MS } from "../fixtures/api.js";
import { size } from "../fixtures/size.js";
import { checkLog } from "../fixtures/stress/log.js";
import { untilTime } from "../fixtures/wait.js";
import { testFolder } from "./folder.js";
import { open } from "./open.js";

const KILLS = size(50, 1000);
const PARALLEL = 4;
const TTL_MS = 500;
const worker = new URL("./killed-worker.js", import.meta.url);

test(`${KILLS} processes are killed while they work`, async () => {
  const folder = testFolder();
  const job = {
    path: folder.file(),
    log: `${folder.path}/sections.log`,
    keys: Array.from({ length: 200 }, (_, index) => `k${index}`),
    ttlMs: TTL_MS,
  };
  let left = KILLS;
  const kill = async () => {
    while (left-- > 0) {
      const child = fork(worker, [JSON.stringify(job)], { execArgv: [] });
      const exit = once(child, "exit");
      // A process that fails by itself sends no message.
      const first = await Promise.race([once(child, "message"), exit]);
      expect(first[0]).toBe("working");
      await sleep(Math.random() * 10);
      child.kill("SIGKILL");
      expect(await exit).toEqual([null, "SIGKILL"]);
    }
  };
  await Promise.all(Array.from({ length: PARALLEL }, kill));

  const report = checkLog(readFileSync(job.log, "utf8"));
  expect(report.violations).toEqual([]);
  expect(report.sections).toBeGreaterThanOrEqual(KILLS);

  await untilTime(Date.now() + TTL_MS + TIME_TOLERANCE_MS);
  const lastFence = new Map();
  for (const line of readFileSync(job.log, "utf8").split("\n")) {
    const [event, , key, fence] = line.split(" ");
    if (event === "B") lastFence.set(key, fence);
  }
  const backend = open({ path: job.path });
  for (const key of job.keys) {
    const lock = await backend.acquire({ key, ttlMs: 60_000 });
    expect(lock.ok).toBe(true);
    expect(lock.fence > (lastFence.get(key) ?? "")).toBe(true);
  }
  await backend.close();
}, 900_000);
