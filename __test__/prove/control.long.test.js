// The checks of a run are worth something: where each process has locks of its own, they say so.

import { expect, test } from "vitest";
import { shortRun } from "./short.js";

test("a lock that does not work fails", async () => {
  const { isKept, promises, updates } = await shortRun("control", { seconds: 5 });
  expect(isKept).toBe(false);
  const found = promises.filter(({ violations }) => violations > 0).map(({ name }) => name);
  expect(found).toEqual(expect.arrayContaining(["one holder", "fences rise"]));
  for (const { name, violations } of promises.slice(0, 2)) {
    expect(violations, name).toBeGreaterThan(100);
  }
  expect(updates.alone.lost).toBeGreaterThan(100);
  expect(updates.heeded.lost).toBeGreaterThan(100);
}, 120_000);
