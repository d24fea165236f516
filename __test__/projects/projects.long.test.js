// Installs the package as released into small projects of each kind, one after
// the other. Their output ends with the fence of a lock, and says whether there is one LockError.

import { readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { documented, registryAnswers, startWorkshop } from "./project.js";

const LOCKED = /^locked 000000000000001 true$/m;
const ONE_PASSED = /^ *Tests:? +1 passed/m;
const TSC = "node node_modules/typescript/bin/tsc";
const TSC7 = "node node_modules/typescript7/bin/tsc";

describe("syncguard loads", { timeout: 240_000 }, () => {
  let workshop;
  let tools;

  beforeAll(async () => {
    if (!(await registryAnswers())) throw new Error("The npm registry does not answer");
    workshop = await startWorkshop();
    tools = workshop.project("tools", "app", "tools");
    await tools.run("npm install --no-save --no-audit --no-fund syncguard");
  }, 600_000);
  afterAll(() => workshop?.close(), 600_000);

  /** Runs in a folder without the installed packages, so that a bundle must contain everything. */
  function runMoved(built, program) {
    const moved = join(workshop.folder, `moved-${built}`);
    rmSync(moved, { recursive: true, force: true });
    renameSync(join(tools.path, built), moved);
    return workshop
      .project(".")
      .run(`${program.endsWith("js") ? "node " : ""}${join(moved, program)}`);
  }

  describe("with npm", () => {
    test.each([
      ["require", "node main.js"],
      ["import", "node main.mjs"],
      ["tsx", "tsx main.ts"],
      ["Bun", "bun main.ts"],
      ["Deno", "deno run --allow-all main.ts"],
      [
        "TypeScript to CommonJS, module node16",
        `${TSC7} -p node16.json && node out/node16/main.js`,
      ],
      ["TypeScript, module commonjs", `${TSC7} -p commonjs.json && node out/commonjs/main.js`],
      ["TypeScript, moduleResolution node10", `${TSC} -p node10.json && node out/node10/main.js`],
      ["NestJS", `${TSC} -p nest && node out/nest/main.js`],
      ["webpack", "webpack && node out/webpack/main.js"],
      [
        "webpack, in development",
        "webpack --mode development -o out/webpack-eval && node out/webpack-eval/main.js",
      ],
      [
        "Vite, server build",
        "vite build --ssr main.ts --outDir out/vite && node out/vite/main.mjs",
      ],
      ["Vite, all packed", "vite build -c packed.config.mjs && node out/packed/main.mjs"],
    ])("%s", async (_, command) => expect(await tools.run(command)).toMatch(LOCKED));

    test.each([
      ["Jest", "jest --config jest/jest.config.json"],
      ["ts-jest", "jest --config ts-jest/jest.config.json"],
      ["vitest", "vitest run"],
    ])("%s", async (_, command) => expect(await tools.run(command)).toMatch(ONE_PASSED));
  });

  describe("in a bundle that runs elsewhere", () => {
    test("esbuild", async () => {
      await tools.run(documented("A bundle that runs elsewhere"));
      expect(await runMoved("out", "main.js")).toMatch(LOCKED);
    });

    test("esbuild, ES modules", async () => {
      await tools.run(documented("esbuild, ES modules"));
      expect(await runMoved("out", "main.mjs")).toMatch(LOCKED);
    });

    test("ncc", async () => {
      await tools.run("ncc build main.js -o out-ncc");
      expect(await runMoved("out-ncc", "index.js")).toMatch(LOCKED);
    });

    test("bun build --compile", async () => {
      await tools.run("bun build --compile main.ts --outfile out-bun/main");
      expect(await runMoved("out-bun", "main")).toMatch(LOCKED);
    });
  });

  describe("with other package managers", () => {
    const yarn = () => `node ${join(tools.path, "node_modules/@yarnpkg/cli-dist/bin/yarn.js")}`;

    test("pnpm, with and without a bundle", async () => {
      const { run } = workshop.project("pnpm", "app");
      const { registry, folder } = workshop;
      await run(
        `pnpm install --registry ${registry.url} --store-dir ${join(folder, "stores/pnpm")}`,
      );
      expect(await run("node main.js")).toMatch(LOCKED);
      expect(await run("node main.mjs")).toMatch(LOCKED);
      await run("esbuild main.js --bundle --platform=node --outfile=out/main.js");
      expect(await run("node out/main.js")).toMatch(LOCKED);
    });

    test("Yarn, Plug'n'Play", async () => {
      const { path, run } = workshop.project("yarn", "app");
      // This file makes it a project of its own, whatever the parent folders contain.
      writeFileSync(join(path, "yarn.lock"), "");
      await run(`${yarn()} install`);
      expect(await run(`${yarn()} node main.js`)).toMatch(LOCKED);
      writeFileSync(join(path, ".yarnrc.yml"), documented("Yarn, Plug'n'Play"));
      await run(`${yarn()} install`);
      expect(await run(`${yarn()} node main.mjs`)).toMatch(LOCKED);
    });

    test("Yarn, Plug'n'Play, in a project of ES modules", async () => {
      const { path, run } = workshop.project("yarn-esm", "app");
      const manifest = join(path, "package.json");
      const { dependencies } = JSON.parse(readFileSync(manifest, "utf8"));
      writeFileSync(manifest, JSON.stringify({ type: "module", dependencies }));
      writeFileSync(join(path, "yarn.lock"), "");
      await run(`${yarn()} install`);
      expect(await run(`${yarn()} node main.mjs`)).toMatch(LOCKED);
    });

    test("Bun", async () => {
      const { run } = workshop.project("bun", "app");
      await run("bun install");
      expect(await run("bun main.ts")).toMatch(LOCKED);
    });

    test("Deno", async () => {
      const { run } = workshop.project("deno", "app");
      await run("deno install");
      expect(await run("deno run --allow-all main.ts")).toMatch(LOCKED);
    });
  });

  describe("without the native addon", () => {
    test("the error says what is missing, and syncguard/common works", async () => {
      const { run } = workshop.project("bare", "app");
      await run("npm install --omit=optional --no-audit --no-fund");
      const [native] = workshop.registry.packages.keys();
      await expect(run("node main.js")).rejects.toThrow(
        `LockError: SyncGuard's native addon is missing: the package ${native} is not installed. Install with optional dependencies`,
      );
      expect(await run("node common.js")).toMatch(
        /^common AcquisitionTimeout 000000000000007 succeeded$/m,
      );
    });
  });

  describe("in Next.js", () => {
    test("by default, and standalone with the documented setting", async () => {
      const next = workshop.project("next", "next");
      await next.run("npm install --no-save --no-audit --no-fund syncguard");
      const cli = join("node_modules", "next", "dist", "bin", "next");
      await next.run(`node ${cli} build`);
      expect(await next.ask([cli, "start"], "/lock")).toMatch(LOCKED);

      writeFileSync(join(next.path, "next.config.mjs"), documented("Next.js, standalone"));
      await next.run(`node ${cli} build`);
      const moved = workshop.project("elsewhere-next");
      renameSync(join(next.path, ".next", "standalone"), moved.path);
      expect(await moved.ask(["server.js"], "/lock")).toMatch(LOCKED);
    }, 600_000);
  });
});
