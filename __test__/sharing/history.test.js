// The checks of the recorded history find what must not happen.

import { expect, test } from "vitest";
import { examine } from "./history.js";

/** A round of work: when it began and ended, with which fence and slot. */
const round = (enteredAt, leftAt, fence, share = {}) => {
  const { slot, ...config } = share;
  const locks = [{ key: "k", fence: String(fence).padStart(15, "0"), slot }];
  return { enteredAt: BigInt(enteredAt), leftAt: BigInt(leftAt), locks, ...config };
};
const of = (concurrency) => (slot) => ({ concurrency, slot });
const reader = (slot) => ({ mode: "shared", slot });
const two = of(2);
const three = of(3);

test.each([
  ["nothing", [], 0],
  ["one after the other", [round(0, 1, 1), round(2, 3, 2)], 1],
  ["a full key", [round(0, 9, 1, two(0)), round(1, 9, 2, two(1))], 2],
  ["a slot that is used again", [round(0, 2, 1, two(0)), round(3, 9, 2, two(0))], 1],
  ["a limit that was raised", [round(0, 9, 1, two(0)), round(1, 9, 2, three(1))], 2],
  [
    "one that began to work when others had joined it",
    [round(1, 9, 2, three(1)), round(2, 9, 3, three(2)), round(3, 9, 1, two(0))],
    3,
  ],
  ["readers", [0, 1, 2, 3].map((slot) => round(slot, 9, slot + 1, reader(slot))), 4],
])("accepts %s", (_, records, most) => {
  expect(examine(records)).toEqual({ violations: [], most });
});

test.each([
  ["two exclusive holders", [round(0, 9, 1), round(1, 9, 2)], /not alone/],
  ["a reader beside a writer", [round(0, 9, 1), round(1, 9, 2, reader(0))], /not alone/],
  ["a writer beside a reader", [round(0, 9, 1, reader(0)), round(1, 9, 2)], /not alone/],
  [
    "one too many",
    [round(0, 9, 1, two(0)), round(1, 9, 2, two(1)), round(2, 9, 3, two(2))],
    /joined 2 holders with 2 allowed/,
  ],
  ["a slot twice", [round(0, 9, 1, two(0)), round(1, 9, 2, two(0))], /in use/],
  ["a slot that is too high", [round(0, 9, 1, two(2))], /slot 2 with 2 allowed/],
  ["no slot", [round(0, 9, 1, two(undefined))], /slot undefined/],
  ["a fence twice", [round(0, 1, 1), round(2, 3, 1)], /same fence/],
  ["fences that fall", [round(0, 1, 2), round(2, 3, 1)], /came after/],
  ["a reader's fence that falls", [round(0, 1, 2), round(2, 3, 1, reader(0))], /came after/],
  ["a failure", [{ failed: "AcquisitionTimeout" }], /AcquisitionTimeout/],
])("finds %s", (_, records, violation) => {
  expect(examine(records).violations.join()).toMatch(violation);
});
