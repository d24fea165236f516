// A process with a wrong clock warns.

import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { collections } from "./open.js";

const OPEN = new URL("./open.js", import.meta.url).href;

async function warningsAt(offset) {
  const program = `
    const { open } = await import(${JSON.stringify(OPEN)});
    const backend = open(${JSON.stringify(collections())});
    for (const key of ["a", "b"]) await (await backend.acquire({ key, ttlMs: 1000 })).release();
    await backend.close();
    // The warning may arrive after the answers.
    setTimeout(() => {}, 100);
  `;
  const args = ["-f", offset, process.execPath, "--input-type=module", "--eval", program];
  const env = { ...process.env, NODE_OPTIONS: "", FAKETIME_DONT_FAKE_MONOTONIC: "1" };
  const { stderr } = await promisify(execFile)("faketime", args, { env });
  return stderr.split("\n").filter((line) => line.includes("clock"));
}

test.each([
  ["+3s", "ahead of"],
  ["-3s", "behind"],
])("a clock that is %s off: one warning with the offset", async (offset, direction) => {
  const warnings = await warningsAt(offset);
  expect(warnings).toHaveLength(1);
  const [, ms] = /^\[SyncGuard\] .* (\d+) ms /.exec(warnings[0]);
  expect(warnings[0]).toContain(direction);
  expect(Number(ms)).toBeGreaterThan(2_000);
  expect(Number(ms)).toBeLessThanOrEqual(3_100);
});

test("a correct clock: no warning", async () => {
  expect(await warningsAt("+0s")).toEqual([]);
});
