// The seed alone decides which faults come when.

import { expect, test } from "vitest";
import { randomFrom } from "../../prove/random.mjs";
import { schedule } from "../../prove/schedule.mjs";

const kinds = { killed: [0, 500], stopped: [300, 3_000], cut: [100, 200] };
const span = { endMs: 600_000, gapMs: [500, 3_000] };

test("the same seed gives the same schedule, and another seed another one", () => {
  const plan = schedule("7 store", kinds, span);
  expect(schedule("7 store", kinds, span)).toEqual(plan);
  expect(schedule("8 store", kinds, span)).not.toEqual(plan);
  expect(schedule("7 process 0", kinds, span)).not.toEqual(plan);
});

test("one after the other, within their lengths and the time there is, all kinds alike", () => {
  const plan = schedule("7 store", kinds, span);
  expect(plan.length).toBeGreaterThan(150);
  plan.forEach(({ at, kind, ms }, index) => {
    const [low, high] = kinds[kind];
    expect(ms).toBeGreaterThanOrEqual(low);
    expect(ms).toBeLessThan(high);
    const before = plan[index - 1];
    expect(at).toBeGreaterThanOrEqual(before ? before.at + before.ms + span.gapMs[0] : 0);
    expect(at + ms).toBeLessThanOrEqual(span.endMs);
  });
  const counts = Object.keys(kinds).map((kind) => plan.filter((one) => one.kind === kind).length);
  expect(Math.max(...counts) - Math.min(...counts)).toBeLessThanOrEqual(1);
});

test("without faults the schedule is empty", () => {
  expect(schedule("7", {}, span)).toEqual([]);
});

test("random numbers are spread evenly", () => {
  const random = randomFrom("any");
  const counts = new Array(10).fill(0);
  for (let time = 0; time < 10_000; time++) counts[random.below(10)] += 1;
  for (const count of counts) expect(Math.abs(count - 1_000)).toBeLessThan(150);
});
