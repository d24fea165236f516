// A real Nest application with the version of Nest that is installed here, compiled to CommonJS with the
// tsconfig.json of a new project.

import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll } from "vitest";
import { ROOT } from "../fixtures/node.js";
import { nestApplication } from "./nest-suite.js";

// Uses REDIS_URL.
const folder = mkdtempSync(join(tmpdir(), "syncguard-nest-"));
const app = join(folder, "app");
afterAll(() => rmSync(folder, { recursive: true, force: true }));

beforeAll(() => {
  mkdirSync(join(app, "node_modules"), { recursive: true });
  symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"), "junction");
  symlinkSync(ROOT, join(app, "node_modules/syncguard"), "junction");
  for (const sample of ["nest", "nest-strict"]) {
    cpSync(join(ROOT, "__test__/projects", sample), app, { recursive: true });
  }
  writeFileSync(join(app, "package.json"), JSON.stringify({ private: true }));
  const compiler = join(ROOT, "node_modules/typescript/bin/tsc");
  execFileSync(process.execPath, [compiler, "-p", "."], { cwd: app, encoding: "utf8" });
}, 60_000);

nestApplication(() => app);
