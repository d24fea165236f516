// A value that both languages need is the same in both. Users see JavaScript's table, and
// the core has a copy, because it needs the value before JavaScript could pass it.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { FENCE_THRESHOLDS, MAX_KEY_LENGTH_BYTES, TIME_TOLERANCE_MS } from "../../js/common.js";
import { ROOT } from "../fixtures/node.js";

/** Returns what follows the pattern in a Rust file, which must contain the pattern once. */
function inRust(path, pattern) {
  const found = [...readFileSync(join(ROOT, path), "utf8").matchAll(pattern)];
  expect(found, `${path}: ${pattern}`).toHaveLength(1);
  return found[0].slice(1);
}
const numbers = (texts) => texts.map((text) => Number(text.replaceAll("_", "")));

test("the maximum length of a key", () => {
  const found = inRust("src/lock/key.rs", /const MAX_KEY_LENGTH_BYTES: usize = ([\d_]+);/g);
  expect(numbers(found)).toEqual([MAX_KEY_LENGTH_BYTES]);
});

test("the time tolerance", () => {
  const found = inRust("src/lock/time.rs", /const TIME_TOLERANCE_MS: u64 = ([\d_]+);/g);
  expect(numbers(found)).toEqual([TIME_TOLERANCE_MS]);
});

test("the fence thresholds", () => {
  const found = ["MAX", "WARN"].flatMap((name) =>
    inRust("src/lock/fence.rs", new RegExp(`const FENCE_${name}: u64 = ([\\d_]+);`, "g")),
  );
  const { MAX, WARN } = FENCE_THRESHOLDS;
  expect(numbers(found)).toEqual([Number(MAX), Number(WARN)]);
});
