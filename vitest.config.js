import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["__test__/**/*.test.js", "examples/*.test.mjs"],
    globalSetup: "scripts/lib/vitest-setup.mjs",
    // Processes, not threads: an addon that crashes then fails one file, and
    // signals and exit codes are the real ones.
    pool: "forks",
    // The tests mostly wait, for servers and for locks to expire.
    maxWorkers: 2,
    maxConcurrency: 20,
    testTimeout: 30_000,
    hookTimeout: 60_000,
  },
});
