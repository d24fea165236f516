import { expect, test } from "vitest";
import { stress } from "../fixtures/stress/run.js";
import { prefix } from "./open.js";

test("200 workers in several processes, some killed: never two inside, nothing stays locked", async () => {
  const report = await stress({
    module: new URL("./open.js", import.meta.url),
    config: { keyPrefix: prefix() },
    processes: 4,
    workers: 200,
    keys: 5,
    seconds: 20,
    kills: 6,
    ttlMs: 3_000,
  });
  expect(report.violations).toEqual([]);
  expect(report.sections).toBeGreaterThan(1000);
}, 180_000);
