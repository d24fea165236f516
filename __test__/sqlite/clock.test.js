// The clock of the host is set forward or back, simulated by a process with another time of day.

import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { TIME_TOLERANCE_MS } from "../fixtures/api.js";
import { untilTime } from "../fixtures/wait.js";
import { testFolder } from "./folder.js";
import { open } from "./open.js";

const folder = testFolder();
const OPEN = new URL("./open.js", import.meta.url).href;

/** Acquires in a process whose clock is off by `offset`, and ends without a release. */
async function acquireAt(offset, path, ttlMs) {
  const program = `
    const { open } = await import(${JSON.stringify(OPEN)});
    const backend = open({ path: ${JSON.stringify(path)} });
    const { ok, fence } = await backend.acquire({ key: "k", ttlMs: ${ttlMs} });
    console.log(JSON.stringify({ ok, fence }));
    await backend.close();
  `;
  const args = ["-f", offset, process.execPath, "--input-type=module", "--eval", program];
  const env = { ...process.env, NODE_OPTIONS: "", FAKETIME_DONT_FAKE_MONOTONIC: "1" };
  const { stdout } = await promisify(execFile)("faketime", args, { env });
  return JSON.parse(stdout);
}

test("clock set back by a year: an earlier lock ends one TTL after the next attempt", async () => {
  const path = folder.file();
  const ttlMs = 2_000;
  expect((await acquireAt("+365d", path, ttlMs)).ok).toBe(true);
  const backend = open({ path });
  const askedAt = Date.now();
  expect((await backend.acquire({ key: "k", ttlMs })).ok).toBe(false);
  const answeredAt = Date.now();
  const { expiresAtMs } = await backend.lookup({ key: "k" });
  expect(expiresAtMs).toBeGreaterThanOrEqual(askedAt + ttlMs);
  expect(expiresAtMs).toBeLessThanOrEqual(answeredAt + ttlMs);
  await untilTime(expiresAtMs + TIME_TOLERANCE_MS);
  expect(await backend.acquire({ key: "k", ttlMs })).toMatchObject({
    ok: true,
    fence: "000000000000002",
  });
  await backend.close();
});

test("clock set forward by a year: the lock expires early, and its holder's fence is outdated", async () => {
  const path = folder.file();
  const backend = open({ path });
  const lock = await backend.acquire({ key: "k", ttlMs: 60_000 });
  const next = await acquireAt("+365d", path, 60_000);
  expect(next.ok).toBe(true);
  expect(next.fence > lock.fence).toBe(true);
  expect((await lock.extend(60_000)).ok).toBe(false);
  expect((await lock.release()).ok).toBe(false);
  await backend.close();
});
