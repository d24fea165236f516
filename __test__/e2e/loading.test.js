// There is one instance of the package, however and however often it is loaded.

import { cp, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, test } from "vitest";
import { ROOT, node, run } from "../fixtures/node.js";

test("import and require give the same module, with one LockError", async () => {
  const result = await run(`
    import { createRequire } from "node:module";
    import * as imported from "syncguard";
    import * as common from "syncguard/common";
    import { createMemoryBackend } from "syncguard/memory";
    const require = createRequire(${JSON.stringify(join(ROOT, "package.json"))});
    const required = require("syncguard");
    const error = await require("syncguard/memory").createMemoryBackend()
      .acquire({ key: "", ttlMs: 1 }).catch((caught) => caught);
    console.log(JSON.stringify([
      imported.LockError === required.LockError,
      imported.LockError === common.LockError,
      imported.LockError === require("syncguard/common").LockError,
      error instanceof imported.LockError,
      createMemoryBackend === require("syncguard/memory").createMemoryBackend,
      await required.lock(createMemoryBackend(), () => 7, { key: "k" }),
    ]));
  `);
  expect(result.stderr).toBe("");
  expect(JSON.parse(result.stdout)).toEqual([true, true, true, true, true, 7]);
});

test("require() works without a warning", async () => {
  const result = await node([
    "--input-type=commonjs",
    "--eval",
    `
    const { LockError, lock } = require("syncguard");
    const { createMemoryBackend } = require("syncguard/memory");
    lock(createMemoryBackend(), ({ fence }) => console.log(fence, typeof LockError), { key: "k" });
  `,
  ]);
  expect(result).toMatchObject({ code: 0, stderr: "", stdout: "000000000000001 function\n" });
});

test.each(["syncguard", "syncguard/common", "syncguard/memory"])(
  "%s loads by itself",
  async (name) => {
    const result = await run(`console.log(Object.keys(await import("${name}")).length > 0);`);
    expect(result).toMatchObject({ code: 0, stderr: "", stdout: "true\n" });
  },
);

test("two copies of the package work in one process", async () => {
  // As when two dependencies each bring their own: the addon is then loaded from two files.
  const folder = await mkdtemp(join(tmpdir(), "syncguard-copy-"));
  try {
    await cp(join(ROOT, "js"), join(folder, "js"), { recursive: true });
    await cp(join(ROOT, "package.json"), join(folder, "package.json"));
    const result = await run(`
      import { createMemoryBackend as one, createLock as lockOne } from "syncguard/memory";
      const { createMemoryBackend: two } = await import("${pathToFileURL(join(folder, "js/memory.js"))}");
      const { lock: lockTwo } = await import("${pathToFileURL(join(folder, "js/index.js"))}");
      const first = one(), second = two();
      const waiting = [];
      for (const backend of [first, second]) {
        const held = await backend.acquire({ key: "k", ttlMs: 600_000 });
        // Over the other copy's lock() too: it is just another backend to it.
        waiting.push(lockTwo(backend, ({ fence }) => fence, {
          key: "k", acquisition: { retryDelayMs: 10, maxRetries: 1e6, timeoutMs: 600_000 },
        }));
        setTimeout(() => held.release(), 20);
      }
      console.log(one !== two, await Promise.all(waiting));
    `);
    expect(result).toMatchObject({
      code: 0,
      stderr: "",
      stdout: "true [ '000000000000002', '000000000000002' ]\n",
    });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});
