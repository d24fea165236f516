// After many operations memory stays flat, signals have no listeners left, and no handle stays open.

import { expect, test } from "vitest";
import { node } from "../fixtures/node.js";
import { isLong, size } from "../fixtures/size.js";
import { fileURLToPath } from "node:url";

const MB = 1 << 20;
/** Of the operations of a long run. */
const SHARE = size(0.1, 1);
const program = fileURLToPath(new URL("../fixtures/long-run.js", import.meta.url));
const long = async (name) => {
  const result = await node(["--expose-gc", program, name, String(SHARE)], { timeoutMs: 540_000 });
  expect(result).toMatchObject({ code: 0, signal: null, stderr: "" });
  return JSON.parse(result.stdout);
};

test(`${1_000_000 * SHARE} operations of all kinds`, async () => {
  const report = await long("operations");
  expect(report.operations).toBeGreaterThanOrEqual(1_000_000 * SHARE);
  expect(report.listeners).toBe(0);
  expect(report.resourcesAfter).toEqual(report.resourcesBefore);
  expect(report.heapGrowth).toBeLessThan(4 * MB);
  expect(report.rssGrowth).toBeLessThan(48 * MB);
}, 600_000);

test(`${100_000 * SHARE} calls over backends in JavaScript`, async () => {
  const report = await long("asked");
  expect(report.calls).toBeGreaterThanOrEqual(100_000 * SHARE);
  expect(report.listeners).toBe(0);
  expect(report.heapGrowth).toBeLessThan(4 * MB);
  expect(report.rssGrowth).toBeLessThan(48 * MB);
}, 600_000);

test("a held lock takes less than 1 KB", async () => {
  const report = await long("held");
  expect(report.bytesPerLock).toBeLessThan(1024);
}, 600_000);

if (isLong) {
  test("short locks on a million distinct keys leave only their fences", async () => {
    const report = await long("distinct");
    expect(report.bytesPerKey).toBeLessThan(256);
  }, 600_000);
}
