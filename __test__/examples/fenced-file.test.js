// Tests the fenced write of a file.

import { mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect } from "vitest";
import { fencedWrites } from "./fenced.js";

const root = mkdtempSync(join(tmpdir(), "syncguard-example-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));
let count = 0;

fencedWrites("fenced-file", () => {
  const folder = join(root, String(++count));
  return {
    args: [folder],
    stored: async () => {
      const reports = readdirSync(folder).filter((name) => !name.startsWith("locks.db"));
      expect(reports).toHaveLength(1);
      const body = readFileSync(join(folder, reports[0]), "utf8");
      return { body, fence: reports[0].replace(".txt", "") };
    },
  };
});
