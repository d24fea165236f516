// The report says what a run showed, also what it broke.

import { expect, test } from "vitest";
import { summarize } from "../../prove/check/summary.mjs";
import { inShort, report } from "../../prove/report.mjs";
import { history, life, turn, write } from "./histories.js";

const circumstances = { commit: "abc1234567", date: "2026-01-01", machine: "a machine" };
const stopped = { e: "stopped", t: 2_000, w: "0.1", from: 110, to: 2_000 };
const late = turn("a", { f: 1, from: 100, to: 2_010, believedTo: 100, kept: false });
const next = turn("b", { p: "1.1", f: 2, from: 1_200, to: 1_300 });
const alone = { cell: "alone" };
const events = [
  ...[life("0.1"), life("1.1"), [stopped], late, next],
  ...[write(1_250, "b", null, alone), write(2_005, "a", null, alone)],
];

const reported = (...more) => {
  const summary = summarize(history(...events, ...more));
  return { summary, ...report([{ ...summary, ...circumstances }]) };
};

test("reports kept guarantees and updates lost by pauses", () => {
  const { summary, markdown, charts } = reported();
  expect(summary).toMatchObject({ isKept: true, turns: 2, updates: { alone: { lost: 1 } } });
  expect(inShort(summary)).toContain("1 with the lock alone");
  expect(markdown).toContain("| redis | 1 | `abc1234567` | 2026-01-01 |");
  expect(markdown).toContain("kept, 2 |");
  expect(markdown).toContain("| redis: process stopped | 1 | 1,000 | 0 | 0 | 0 |");
  expect(markdown).not.toContain("broken**");
  expect(charts).toMatch(/^<svg [^]*<\/svg>\n$/);
});

test("reports broken guarantees", () => {
  const { summary, markdown } = reported(turn("c", { p: "1.1", f: 3, from: 1_250, to: 1_400 }));
  expect(summary.isKept).toBe(false);
  expect(inShort(summary)).toContain("BROKEN one holder");
  expect(markdown).toContain("**1 broken** of 3");
});
