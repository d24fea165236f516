import { expect, test } from "vitest";
import { stress } from "../fixtures/stress/run.js";
import { collections } from "./open.js";

test("several processes, some killed: never two inside, nothing stays locked", async () => {
  const report = await stress({
    module: new URL("./open.js", import.meta.url),
    config: collections(),
    processes: 3,
    workers: 30,
    keys: 3,
    seconds: 10,
    kills: 3,
    ttlMs: 2_000,
  });
  expect(report.violations).toEqual([]);
  expect(report.sections).toBeGreaterThan(50);
}, 120_000);
