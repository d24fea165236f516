// A folder for the files of one test file. It is removed afterwards.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll } from "vitest";

export function testFolder() {
  const folder = mkdtempSync(join(tmpdir(), "syncguard-sqlite-"));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  let count = 0;
  return {
    path: folder,
    /** The path of a file that does not exist yet. */
    file: () => join(folder, `${++count}.db`),
  };
}
