// The lock manager has the type that TypeScript declares for `navigator.locks`.

import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { expect, test } from "vitest";
import { ROOT } from "../fixtures/node.js";

test("it is assignable to LockManager of lib.dom", { timeout: 60_000 }, () => {
  const compiler = join(ROOT, "node_modules/typescript/bin/tsc");
  const options = [
    "--noEmit",
    "--ignoreConfig",
    "--strict",
    "--module",
    "nodenext",
    "--types",
    "node",
  ];
  const libraries = ["--lib", "es2023,esnext.disposable,dom", "--skipLibCheck"];
  const file = "__test__/integrations/web-locks/dom.ts";
  const run = () =>
    execFileSync(process.execPath, [compiler, ...options, ...libraries, file], {
      cwd: ROOT,
      encoding: "utf8",
    });
  expect(run).not.toThrow();
});
