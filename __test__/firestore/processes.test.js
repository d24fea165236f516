import { expect, test } from "vitest";
import { size } from "../fixtures/size.js";
import { stress } from "../fixtures/stress/run.js";
import { collections } from "./open.js";

test("several processes, some of them killed: never two holders, and nothing stays locked", async () => {
  const report = await stress({
    module: new URL("./open.js", import.meta.url),
    config: collections(),
    processes: 3,
    workers: 30,
    keys: 3,
    seconds: size(4, 10),
    kills: size(1, 3),
    ttlMs: size(1_000, 2_000),
  });
  expect(report.violations).toEqual([]);
  expect(report.sections).toBeGreaterThan(size(10, 50));
}, 120_000);
