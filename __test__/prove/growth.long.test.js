// Many operations in one process leave nothing in it.

import { expect, test } from "vitest";
import { growthOf } from "../../prove/check/growth.mjs";
import { endure } from "../../prove/endurance.mjs";

test.each(["redis", "sqlite"])(
  "%s: thirty thousand operations, with connections that break",
  async (backend) => {
    const measured = await endure({ backend, operations: 30_000, seed: "1", breakEveryMs: 500 });
    const growth = growthOf(measured);
    expect(growth.grew).toEqual([]);
    expect(growth.closed.descriptors).toBeLessThan(growth.last.descriptors + 4);
    const unexpected = Object.keys(measured.errors).filter(
      (code) => !["Aborted", "AcquisitionTimeout", "ServiceUnavailable"].includes(code),
    );
    expect(unexpected).toEqual([]);
    if (backend === "redis") expect(measured.broken).toBeGreaterThan(0);
  },
  120_000,
);
