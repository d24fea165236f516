// A dependency on the git repository, which npm builds on the user's machine.

import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ROOT, node } from "../fixtures/node.js";

const checkout = mkdtempSync(join(tmpdir(), "syncguard-prepare-"));
beforeAll(() => {
  for (const name of ["package.json", "scripts"]) {
    cpSync(join(ROOT, name), join(checkout, name), { recursive: true });
  }
});
afterAll(() => rmSync(checkout, { recursive: true, force: true }));

const prepare = (cwd, env) => node(["scripts/prepare.mjs"], { cwd, env: { PATH: "", ...env } });

test("says in one sentence that Rust is missing", async () => {
  expect(await prepare(checkout)).toMatchObject({
    code: 1,
    stdout: "",
    stderr:
      "A git dependency on SyncGuard is built on your machine, but `cargo` was not found: install Rust, or depend on a released version.\n",
  });
});

test("does nothing in a checkout, unless npm prepares it as a dependency", async () => {
  const nothing = { code: 0, stdout: "", stderr: "" };
  const prepared = { _PACOTE_NO_PREPARE_: undefined };
  expect(await prepare(ROOT, prepared)).toMatchObject(nothing);
  expect(await prepare(ROOT, { _PACOTE_NO_PREPARE_: "1" })).toMatchObject({ code: 1 });
});
