// Short runs of `npm run prove`. The seed of one that fails is in its message.

import { randomInt } from "node:crypto";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { prove } from "../../prove/prove.mjs";
import { ROOT } from "../fixtures/node.js";

/** A small crowd, as other tests run beside it. */
const SIZE = { seconds: 15, processes: 3, workers: 6 };

/** What happened in a run that broke a promise stays in `target/prove`. */
export async function shortRun(backend, options) {
  const seed = String(randomInt(1e9));
  const folder = join(ROOT, "target", "prove", `short-${backend}-${seed}`);
  const summary = await prove({ backend, seed, folder, ...SIZE, ...options });
  if (summary.isKept || backend.startsWith("control"))
    rmSync(folder, { recursive: true, force: true });
  return summary;
}

/** Returns the broken guarantees, with the seed to repeat the run. */
export const broken = ({ seed, promises }) =>
  promises
    .filter(({ violations }) => violations)
    .map(({ name, examples }) => `${name}, --seed ${seed}: ${examples.join("\n")}`);

/** Tests that a short run on each backend keeps the guarantees, with enough turns and faults. */
export function testShortRuns(backends, turns) {
  test.concurrent.each(backends)(
    "%s",
    async (backend) => {
      const summary = await shortRun(backend);
      expect(broken(summary)).toEqual([]);
      expect(summary.turns).toBeGreaterThan(turns);
      expect(Object.keys(summary.faults).length).toBeGreaterThan(2);
      expect(summary.together).toBeGreaterThan(0);
    },
    180_000,
  );
}
