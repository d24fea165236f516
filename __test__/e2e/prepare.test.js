// A dependency on the git repository, which npm prepares on the machine of who installs it.

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

test("needs Rust, and says so in one sentence", async () => {
  expect(await prepare(checkout)).toMatchObject({
    code: 1,
    stdout: "",
    stderr:
      "SyncGuard as a git dependency is built on this machine, which needs Rust (cargo): install it, or depend on a released version instead.\n",
  });
});

test("is not for a checkout, unless npm makes a dependency of it", async () => {
  const nothing = { code: 0, stdout: "", stderr: "" };
  const prepared = { _PACOTE_NO_PREPARE_: undefined };
  expect(await prepare(ROOT, prepared)).toMatchObject(nothing);
  expect(await prepare(ROOT, { _PACOTE_NO_PREPARE_: "1" })).toMatchObject({ code: 1 });
});
