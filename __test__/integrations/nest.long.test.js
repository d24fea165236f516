// The same application with the oldest and the newest version of Nest that is supported, installed from
// the registry of the test.

import { rmSync } from "node:fs";
import { afterAll, beforeAll, describe } from "vitest";
import { startWorkshop } from "../projects/project.js";
import { nestApplication } from "./nest-suite.js";

// Uses REDIS_URL.
let workshop;
beforeAll(async () => {
  workshop = await startWorkshop();
}, 600_000);
afterAll(() => workshop?.close(), 600_000);

describe.each([
  ["10", ["nest", "nest10"]],
  ["12", ["nest", "nest-strict", "nest12"]],
])("Nest %s", (version, samples) => {
  let path;
  beforeAll(async () => {
    const project = workshop.project(`nest${version}`, ...samples);
    await project.run("npm install --no-save --no-audit --no-fund syncguard");
    await project.run("node node_modules/typescript/bin/tsc -p .");
    path = project.path;
  }, 600_000);
  afterAll(() => path && rmSync(path, { recursive: true, force: true }), 600_000);

  nestApplication(() => path);
});
