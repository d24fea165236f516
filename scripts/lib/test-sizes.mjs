// Selects the JavaScript tests: those of `npm test`, and the long tests in `*.long.test.js`, which
// `npm run test:all` adds.

const ALL = ["__test__/**/*.test.js", "examples/*.test.mjs"];
const LONG = "__test__/**/*.long.test.js";

export const isLong = (file) => file.endsWith(".long.test.js");

/**
 * Returns vitest's settings for `short`, `long` or `all`. The short tests mostly wait for servers and
 * for locks to expire. The long ones mostly compute.
 */
export const SIZES = {
  short: { include: ALL, exclude: [LONG], maxWorkers: 8 },
  long: { include: [LONG], maxWorkers: 2 },
  all: { include: ALL, maxWorkers: 2 },
};
