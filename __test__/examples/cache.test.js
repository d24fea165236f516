// Many processes miss the same entry of a cache at the same time.

import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { run } from "./program.js";

// Uses REDIS_URL.
test("one process loads the entry, and all get the same value", async () => {
  const name = randomUUID();
  const env = { LOAD_MS: "1500" };
  const outcomes = await Promise.all([1, 2, 3, 4].map(() => run("cache", [name], env)));
  const lines = outcomes.flatMap((outcome) => outcome.lines);
  expect(outcomes.map(({ code }) => code)).toEqual([0, 0, 0, 0]);
  expect(lines.filter((line) => line === "loading")).toHaveLength(1);
  expect(new Set(lines.filter((line) => line.startsWith("loaded at"))).size).toBe(1);
  const later = await run("cache", [name]);
  expect(later.lines).toEqual([lines.find((line) => line.startsWith("loaded at"))]);
});
