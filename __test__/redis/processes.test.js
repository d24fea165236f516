import { expect, test } from "vitest";
import { size } from "../fixtures/size.js";
import { stress } from "../fixtures/stress/run.js";
import { prefix } from "./open.js";

test("workers in several processes, some of which are killed, never hold a lock together", async () => {
  const report = await stress({
    module: new URL("./open.js", import.meta.url),
    config: { keyPrefix: prefix() },
    processes: 4,
    workers: size(40, 200),
    keys: 5,
    seconds: size(4, 20),
    kills: size(2, 6),
    ttlMs: size(1_000, 3_000),
  });
  expect(report.violations).toEqual([]);
  expect(report.sections).toBeGreaterThan(size(20, 1000));
}, 180_000);
