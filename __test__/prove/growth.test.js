// What judges whether a process grows notices what operations leave in it.

import { describe, expect, test } from "vitest";
import { growthOf } from "../../prove/check/growth.mjs";

const MB = 1 << 20;
const sample = {
  rss: 80 * MB,
  heapUsed: 5 * MB,
  external: MB,
  descriptors: 30,
  threads: 13,
  handles: 0,
};
const run = (last = {}, more = {}) => ({
  backend: "redis",
  measured: [sample, sample, sample, { ...sample, ...last }].map((one) => ({ ...one, seconds: 1 })),
  idle: { listeners: 0 },
  closed: {},
  code: 0,
  signal: null,
  ...more,
});

describe("what is measured", () => {
  test("is flat", () => {
    expect(growthOf(run({ rss: 90 * MB }))).toMatchObject({ isFlat: true, grew: [] });
  });
  test.each([
    ["rss", { rss: 200 * MB }],
    ["heapUsed", { heapUsed: 12 * MB }],
    ["descriptors", { descriptors: 60 }],
    ["threads", { threads: 30 }],
    ["handles", { handles: 20 }],
  ])("grows in %s", (name, last) => {
    expect(growthOf(run(last))).toMatchObject({ isFlat: false, grew: [name] });
  });
  test("left listeners behind", () => {
    const left = growthOf(run({}, { idle: { listeners: 3 } }));
    expect(left).toMatchObject({ isFlat: false, grew: ["listeners"] });
  });
  test("ended in another way", () => {
    const died = growthOf({ backend: "redis", code: null, signal: "SIGSEGV" });
    expect(died).toMatchObject({ isFlat: false, grew: ["it ended with SIGSEGV"] });
  });
});
