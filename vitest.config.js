import { defineConfig } from "vitest/config";
import { SIZES } from "./scripts/lib/test-sizes.mjs";
import { SlowestFirst } from "./scripts/lib/vitest-sequencer.mjs";

export default defineConfig({
  test: {
    ...SIZES[process.env.SYNCGUARD_TESTS ?? "short"],
    globalSetup: "scripts/lib/vitest-setup.mjs",
    // Processes, not threads: an addon that crashes then fails one file, and
    // signals and exit codes are the real ones.
    pool: "forks",
    maxConcurrency: 20,
    testTimeout: 30_000,
    hookTimeout: 60_000,
    sequence: { sequencer: SlowestFirst },
  },
});
