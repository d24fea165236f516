// Two copies of the package in one process, as when two dependencies each bring their own. The
// system keeps file locks by process: two copies of SQLite would not see each other's.

import { cpSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, test } from "vitest";
import { JS, ROOT, run } from "../fixtures/node.js";
import { testFolder } from "./folder.js";

const folder = testFolder();

test("they exclude each other on one file", async () => {
  cpSync(join(ROOT, "js"), join(folder.path, "copy", "js"), { recursive: true });
  cpSync(join(ROOT, "package.json"), join(folder.path, "copy", "package.json"));
  const copy = pathToFileURL(join(folder.path, "copy", "js")).href;
  const result = await run(`
    const path = ${JSON.stringify(folder.file())};
    const fences = [];
    let overlaps = 0, inside = 0;
    await Promise.all([${JSON.stringify(JS)}, ${JSON.stringify(`${copy}/`)}].map(async (js) => {
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
