// Jest runs each test file in a separate context, and many files in one process. A context must be
// collected after its file: if a library keeps contexts alive, large test suites run out of memory.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { ROOT, node } from "../fixtures/node.js";

const FILES = 10;
const LARGE_MB = 40;
/** The first context may stay, as Node.js keeps the AsyncLocalStorage of whoever loads the native addon, and
 * Jest itself sometimes keeps one or two for a while. All of them together would be twice as much. */
const MOST_MB = 4.5 * LARGE_MB;

// Run in the repository, where Jest finds its own packages.
const folder = mkdtempSync(join(ROOT, "target", "jest-heap-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const spec = (body) => `
  const { createBackend, hold, lock, LockError } = require(${JSON.stringify(join(ROOT, "dist/index.js"))});
  globalThis.large = Array.from({ length: ${LARGE_MB} }, () => new Array(131_072).fill(1.5));
  test("uses locks", async () => {
    ${body}
    expect(globalThis.large).toHaveLength(${LARGE_MB});
  });
`;

const BODIES = {
  memory: `
    const backend = createBackend("memory:");
    expect(await lock(backend, ({ fence }) => fence, { key: "k" })).toMatch(/^0+1$/);
    await expect(lock(backend, () => {}, { key: "" })).rejects.toThrow(LockError);
  `,
  // An answer that another thread brings, a wait, a signal, and a connection that is left open.
  redis: `
    const backend = createBackend(process.env.REDIS_URL, { keyPrefix: "jest-heap" });
    const held = await hold(backend, { key: "k" });
    const waiting = lock(backend, () => "waited", { key: "k", acquisition: { timeoutMs: 60_000 } });
    expect(held.signal.aborted).toBe(false);
    await held.release();
    expect(await waiting).toBe("waited");
  `,
  // What a test forgot.
  "a forgotten lock": `
    const backend = createBackend(process.env.REDIS_URL, { keyPrefix: "jest-heap-" + process.pid });
    await hold(backend, { key: "forgotten:" + Math.random() });
  `,
};

test.each(Object.entries(BODIES))(
  "%s: the heap does not grow with the files",
  async (name, body) => {
    const cwd = mkdtempSync(join(folder, "run-"));
    writeFileSync(join(cwd, "package.json"), "{}");
    writeFileSync(
      join(cwd, "jest.config.json"),
      '{ "testMatch": ["**/*.spec.js"], "transform": {}, "testEnvironment": "node" }',
    );
    for (let i = 0; i < FILES; i++) writeFileSync(join(cwd, `${i}.spec.js`), spec(body));
    const jest = join(ROOT, "node_modules/jest/bin/jest.js");
    const run = ["--expose-gc", jest, "--runInBand", "--logHeapUsage"];
    const env = { NODE_ENV: "test", VITEST: undefined, VITEST_MODE: undefined, TEST: undefined };
    const { code, signal, stdout, stderr } = await node(run, { cwd, env });
    expect({ code, signal }, stdout + stderr).toEqual({ code: 0, signal: null });
    const sizes = [...stderr.matchAll(/\((\d+) MB heap size\)/g)].map(([, size]) => Number(size));
    expect(sizes).toHaveLength(FILES);
    expect(sizes.at(-1) - sizes[0], sizes.join(" ")).toBeLessThan(MOST_MB);
  },
  120_000,
);
