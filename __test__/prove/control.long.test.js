// The checks of a run are worth something: where locks do not work, they say so.

import { expect, test } from "vitest";
import { shortRun } from "./short.js";

const brokenIn = ({ promises }) =>
  promises.filter(({ violations }) => violations > 0).map(({ name }) => name);

test("locks of each process alone fail", async () => {
  const summary = await shortRun("control", { seconds: 5 });
  const { isKept, promises, updates } = summary;
  expect(isKept).toBe(false);
  expect(brokenIn(summary)).toEqual(expect.arrayContaining(["one holder", "fences rise"]));
  for (const { name, violations } of promises.slice(0, 2)) {
    expect(violations, name).toBeGreaterThan(100);
  }
  expect(updates.alone.lost).toBeGreaterThan(100);
  expect(updates.heeded.lost).toBeGreaterThan(100);
}, 120_000);

test("more holders than may share a key fail", async () => {
  const summary = await shortRun("control-limits", { seconds: 8, workers: 100 });
  expect(summary.isKept).toBe(false);
  const [{ name, violations, examples }] = summary.promises;
  expect(name).toBe("one holder");
  expect(violations).toBeGreaterThan(0);
  // All other locks work.
  for (const text of examples) expect(text).toMatch(/^semaphore-.* are allowed/);
}, 120_000);
