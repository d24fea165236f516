// The package in users' tests with common test runners: fake timers drive a custom backend, and a
// memory backend with `clock: "javascript"`.

import { join } from "node:path";
import { expect, test } from "vitest";
import { ROOT, node } from "../fixtures/node.js";

const RUNNERS = {
  vitest: ["node_modules/vitest/vitest.mjs", "run", "--reporter=json"],
  // In one process: a context for each file, one after the other.
  jest: ["node_modules/jest/bin/jest.js", "--json", "--runInBand"],
};
const FLAGS = { vitest: [], jest: ["--experimental-vm-modules"] };

test.each(Object.entries(RUNNERS))("%s", async (name, [file, ...args]) => {
  const cwd = join(ROOT, "__test__/fixtures/runners", name);
  // As if nobody ran this test: what one runner sets must not be seen by the other.
  const env = { NODE_ENV: "test", VITEST: undefined, VITEST_MODE: undefined, TEST: undefined };
  const run = [...FLAGS[name], join(ROOT, file), ...args];
  const { code, signal, stdout, stderr } = await node(run, { cwd, env });
  expect({ code, signal }, stdout + stderr).toEqual({ code: 0, signal: null });
  const { numPassedTests, numTotalTests, testResults } = JSON.parse(stdout);
  expect(testResults).toHaveLength(2);
  expect(numTotalTests).toBeGreaterThan(70);
  expect(numPassedTests).toBe(numTotalTests);
});
