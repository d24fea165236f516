// Two copies of the package in one process, as if two dependencies each bring one. File locks belong to
// the process, so two copies of SQLite would not see each other's locks.

import { cpSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, test } from "vitest";
import { JS, ROOT, run } from "../fixtures/node.js";
import { testFolder } from "./folder.js";

const folder = testFolder();

cpSync(join(ROOT, "js"), join(folder.path, "copy", "js"), { recursive: true });
cpSync(join(ROOT, "package.json"), join(folder.path, "copy", "package.json"));
const copy = `${pathToFileURL(join(folder.path, "copy", "js")).href}/`;

test("two copies in one thread exclude each other", async () => {
  const result = await run(`
    const path = ${JSON.stringify(folder.file())};
    const fences = [];
    let overlaps = 0, inside = 0;
    await Promise.all([${JSON.stringify(JS)}, ${JSON.stringify(copy)}].map(async (js) => {
      const { createSqliteBackend } = await import(js + "sqlite.js");
      const { lock } = await import(js + "index.js");
      const backend = createSqliteBackend(path, { durability: "normal" });
      const acquisition = { maxRetries: 1e6, retryDelayMs: 1, backoff: "fixed", timeoutMs: 6e5 };
      for (let round = 0; round < 300; round++) {
        await lock(backend, async ({ fence }) => {
          if (inside++ > 0) overlaps++;
          fences.push(fence);
          await new Promise(setImmediate);
          inside--;
        }, { key: "k", ttlMs: 60_000, acquisition });
        await backend.isLocked({ key: "k" });
      }
      await backend.close();
    }));
    console.log(JSON.stringify({ overlaps, fences: new Set(fences).size }));
  `);
  expect(result.stderr).toBe("");
  expect(JSON.parse(result.stdout)).toEqual({ overlaps: 0, fences: 600 });
});

test("a second copy in another thread is refused", async ({ skip }) => {
  skip(process.platform === "win32", "there file locks belong to the open file");
  const path = folder.file();
  const result = await run(`
    import { once } from "node:events";
    import { Worker } from "node:worker_threads";
    import { createSqliteBackend } from ${JSON.stringify(`${JS}sqlite.js`)};
    const backend = createSqliteBackend(${JSON.stringify(path)});
    await backend.acquire({ key: "k", ttlMs: 60_000 });
    const program = \`
      import { parentPort } from "node:worker_threads";
      import { createSqliteBackend } from ${JSON.stringify(`${copy}sqlite.js`)};
      const backend = createSqliteBackend(${JSON.stringify(path)});
      const answer = await backend.acquire({ key: "k", ttlMs: 1_000 }).catch((error) => error);
      parentPort.postMessage({ code: answer.code, message: answer.message });
    \`;
    const [answer] = await once(new Worker(program, { eval: true }), "message");
    console.log(JSON.stringify({ ...answer, locked: await backend.isLocked({ key: "k" }) }));
    await backend.close();
  `);
  expect(result.stderr).toBe("");
  const { code, message, locked } = JSON.parse(result.stdout);
  expect(code).toBe("InvalidArgument");
  expect(message).toContain("another copy");
  expect(locked).toBe(true);
});
