// Tests the stress run: it passes on a correct backend and finds the bugs of others.

import { describe, expect, test } from "vitest";
import { formatFence, generateLockId } from "../fixtures/api.js";
import { OverlapChecker } from "../fixtures/overlap.js";
import { checkLog } from "../fixtures/stress/log.js";
import { stress } from "../fixtures/stress/run.js";
import { serve } from "../fixtures/stress/shared-backend.js";

const module = new URL("../fixtures/stress/shared-backend.js", import.meta.url);

// Run concurrently, because these tests mostly wait for the clock.
describe.concurrent("several processes, some of them killed", () => {
  const run = async (operations) => {
    const server = await serve(operations);
    try {
      return await stress({
        module,
        config: server.config,
        processes: 3,
        workers: 30,
        keys: 3,
        seconds: 6,
        kills: 2,
        ttlMs: 1_000,
      });
    } finally {
      await server.close();
    }
  };

  test("a correct backend passes", async () => {
    const report = await run();
    expect(report.violations).toEqual([]);
    expect(report.sections).toBeGreaterThan(10);
    expect(Object.keys(report.perKey)).toHaveLength(3);
  }, 120_000);

  test("a backend that grants every acquire fails", async () => {
    let count = 0;
    const report = await run({
      acquire: async ({ ttlMs }) => ({
        ok: true,
        lockId: generateLockId(),
        expiresAtMs: Date.now() + ttlMs,
        fence: formatFence(++count),
      }),
    });
    expect(report.violations.join("\n")).toContain("was inside");
  }, 120_000);

  test("a backend that never releases fails", async () => {
    const report = await run({ isLocked: async () => true });
    expect(report.violations).toHaveLength(3);
    expect(report.violations[0]).toContain("still locked");
  }, 120_000);
});

describe("the check of the record", () => {
  const later = 1_000_000;
  const begin = (section, fence, { key = "k", expires = later, time = 0 } = {}) =>
    `B ${section} ${key} ${fence} ${expires} ${time}`;
  const check = (...lines) => checkLog(lines.join("\n")).violations;

  test("sequential holders pass, and so do simultaneous holders of different keys", () => {
    expect(check(begin("a", "1"), "E a", begin("b", "2"), "E b")).toEqual([]);
    expect(check(begin("a", "1"), begin("b", "1", { key: "other" }), "E a", "E b")).toEqual([]);
  });
  test("two simultaneous holders fail", () => {
    expect(check(begin("a", "1"), begin("b", "2"), "E a", "E b")).toHaveLength(1);
  });
  test("a holder after a killed one passes only if the lock has expired", () => {
    const dead = begin("a", "1", { expires: 500 });
    expect(check(dead, begin("b", "2", { time: 600 }), "E b")).toEqual([]);
    expect(check(dead, begin("b", "2", { time: 400 }), "E b")).toHaveLength(1);
  });
  test("fences that repeat or decrease fail", () => {
    expect(check(begin("a", "2"), "E a", begin("b", "1"), "E b")).toHaveLength(1);
    expect(check(begin("a", "1"), "E a", begin("b", "1"), "E b")).toHaveLength(2);
  });
  test("an end without a beginning fails", () => {
    expect(check("E a")).toHaveLength(1);
  });
});

describe("the check inside one process", () => {
  test("finds overlaps and fences that do not rise", () => {
    const checker = new OverlapChecker();
    const leave = checker.enter("k", "1");
    checker.enter("other", "1")();
    expect(checker.violations).toEqual([]);
    checker.enter("k", "2");
    expect(checker.violations).toHaveLength(1);
    leave();
    checker.enter("k", "2");
    expect(checker.violations).toHaveLength(3);
  });
});
