// A key that processes share, in a file that an earlier version of this package has made.

import { fork } from "node:child_process";
import { once } from "node:events";
import { chmodSync, copyFileSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, expect, test } from "vitest";
import { rejection } from "../contracts/setup.js";
import { TIME_TOLERANCE_MS, tryHold } from "../fixtures/api.js";
import { until } from "../fixtures/wait.js";
import { testFolder } from "./folder.js";
import { open } from "./open.js";

const PROCESSES = 4;
const LIMIT = 3;
const TTL_MS = 1_000;
/** The clock that made expiresAtMs and the one that made timeMs may differ by this much. */
const CLOCK_GRAIN_MS = 20;
const worker = new URL("./sharing-worker.js", import.meta.url);
const folder = testFolder();

/**
 * Returns a copy of a file that the version before shared records has made. `counted` was locked three
 * times, and `held` is locked until the year 2286 with the fence 1 and the lockId HHHHHHHHHHHHHHHHHHHHHH.
 */
function earlierFile() {
  const path = folder.file();
  copyFileSync(new URL("./earlier-version.db", import.meta.url), path);
  return path;
}

const started = [];
afterEach(() => started.splice(0).forEach((child) => child.kill("SIGKILL")));

function start(job) {
  const child = fork(worker, [JSON.stringify(job)], { execArgv: [] });
  started.push(child);
  const exit = once(child, "exit");
  // A process that fails by itself sends no message.
  const working = Promise.race([once(child, "message"), exit]);
  return { child, exit, working };
}

/**
 * Checks a record: who was inside together, with which slots and fences. As in the record of a stress
 * run, somebody is inside until the end of the section or of the lease, whichever comes first.
 */
function check(log) {
  const violations = [];
  const inside = new Map();
  const counts = { shared: 0, exclusive: 0, most: 0 };
  let lastFence = "";
  for (const line of log.split("\n").filter(Boolean)) {
    const [event, section, slot, fence, expiresAtMs, timeMs] = line.split(" ");
    if (event === "E") {
      inside.delete(section);
      continue;
    }
    if (Number(timeMs) > Number(expiresAtMs)) continue;
    for (const [other, { until }] of inside) if (until <= Number(timeMs)) inside.delete(other);
    const others = [...inside.values()].map((other) => other.slot);
    const isExclusive = slot === "-";
    if ((isExclusive && others.length) || others.includes("-")) {
      violations.push(`${section} (${slot}) beside ${others}`);
    }
    if (others.includes(slot)) violations.push(`${section}: slot ${slot} twice`);
    if (others.length >= LIMIT) violations.push(`${section} beside ${others.length} holders`);
    inside.set(section, { slot, until: Number(expiresAtMs) - CLOCK_GRAIN_MS });
    counts.most = Math.max(counts.most, inside.size);
    counts[isExclusive ? "exclusive" : "shared"] += 1;
    if (isExclusive) {
      if (fence <= lastFence) violations.push(`${section}: fence ${fence} after ${lastFence}`);
      lastFence = fence;
    }
  }
  return { violations, ...counts };
}

test("several processes, one of them killed, upgrade the file and share a key", async () => {
  const path = earlierFile();
  const job = {
    ...{ path, log: `${path}.log`, key: "counted", limit: LIMIT, ttlMs: TTL_MS },
    ...{ workers: 5, writers: 1 },
  };
  const all = Array.from({ length: PROCESSES }, () => start(job));
  for (const { working } of all) expect((await working)[0]).toBe("working");
  const [victim, ...others] = all;
  victim.child.kill("SIGKILL");
  expect(await victim.exit).toEqual([null, "SIGKILL"]);
  // Its shares end with their leases, and the others use all slots again.
  await sleep(TTL_MS + TIME_TOLERANCE_MS);
  const sizeAtEnd = readFileSync(job.log, "utf8").length;
  await until(() => {
    const since = readFileSync(job.log, "utf8").slice(sizeAtEnd);
    const { shared, exclusive, most } = check(since);
    return shared > 50 && exclusive > 5 && most === LIMIT;
  }, "shared and exclusive sections after the kill");
  for (const { child, exit } of others) {
    child.send("stop");
    expect(await exit).toEqual([0, null]);
  }
  expect(check(readFileSync(job.log, "utf8")).violations).toEqual([]);

  const backend = open({ path });
  const after = await tryHold(backend, { key: "counted", mode: "shared" });
  expect(after.slot).toBe(0);
  // The fences go on after those of the earlier version.
  expect(Number(after.fence)).toBeGreaterThan(3 + 55);
  await after.release();
  await backend.close();
}, 120_000);

test("a lock of the earlier version is kept, and excludes shares", async () => {
  const backend = open({ path: earlierFile() });
  const lockId = "H".repeat(22);
  expect(await tryHold(backend, { key: "held", mode: "shared" })).toBe(null);
  expect(await backend.lookup({ lockId })).toMatchObject({ fence: "000000000000001" });
  expect(await backend.release({ lockId })).toEqual({ ok: true });
  const reader = await tryHold(backend, { key: "held", mode: "shared" });
  expect(reader).toMatchObject({ slot: 0, fence: "000000000000002" });
  await reader.release();
  await backend.close();
});

test("a file of the earlier version that cannot be written is refused, and stays as it was", async () => {
  const path = earlierFile();
  const before = readFileSync(path);
  chmodSync(path, 0o444);
  const backend = open({ path });
  for (const operation of [
    () => tryHold(backend, { key: "counted", concurrency: 2 }),
    () => backend.isLocked({ key: "held" }),
  ]) {
    const error = await rejection(operation());
    expect(error).toMatchObject({ code: "InvalidArgument" });
    expect(error.message).toContain(path);
    expect(error.message).toContain("read-only");
  }
  expect(readFileSync(path)).toEqual(before);
  await backend.close();
});
