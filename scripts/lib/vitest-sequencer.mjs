// Decides the order in which vitest runs the test files.
import { relative } from "node:path";
import { BaseSequencer } from "vitest/node";
import { root } from "./run.mjs";

/** The files and folders whose tests take longest. */
const SLOW = [
  "projects",
  "redis/cluster-faults",
  "handover",
  "sharing",
  "e2e/package",
  "cli/doctor",
  "cli/run",
  "cli/look",
  "contracts",
  "process-end",
  "postgres/death",
  "redis/death",
  "firestore/death",
];

/** Runs the slowest files first, so that all workers stay busy until the end. */
export class SlowestFirst extends BaseSequencer {
  async sort(specs) {
    const rank = ({ moduleId }) => {
      const name = relative(root, moduleId);
      const found = SLOW.findIndex((slow) => name.startsWith(`__test__/${slow}`));
      return found < 0 ? SLOW.length : found;
    };
    return specs.toSorted((a, b) => rank(a) - rank(b));
  }
}
