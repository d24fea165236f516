import { expect, test } from "vitest";
import { size } from "../fixtures/size.js";
import { stress } from "../fixtures/stress/run.js";
import { testFolder } from "./folder.js";

const folder = testFolder();

test.each(size(["normal"], ["normal", "full"]))(
  "several processes, some killed, durability %s: there is one holder at a time, and no lock stays behind",
  async (durability) => {
    const report = await stress({
      module: new URL("./open.js", import.meta.url),
      config: { path: folder.file(), durability },
      processes: 4,
      workers: 40,
      keys: 4,
      seconds: size(4, 8),
      kills: size(2, 4),
      ttlMs: 1_000,
    });
    expect(report.violations).toEqual([]);
    expect(report.sections).toBeGreaterThan(size(20, 50));
  },
  120_000,
);
