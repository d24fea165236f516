// Type-checks and runs the code of the documents.

import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { fileOf, ROOT } from "./blocks.js";

/** Inside of the repository, so that imports find its packages, and `syncguard` itself. */
const FOLDER = join(ROOT, "target", "docs", "blocks");
const STAND_INS = join(ROOT, "__test__", "docs");
const execute = promisify(execFile);

/** What the members of a class on the page about NestJS use. On one line, to keep the lines' numbers. */
const NEST = [
  'import { ConflictException, Get, Param, Post } from "@nestjs/common";',
  'import { HealthCheck, HealthCheckService } from "@nestjs/terminus";',
  'import type { LockContext } from "syncguard";',
  "import { CurrentLock, Lock, LockService, SyncGuardHealthIndicator, TryLock }",
  'from "syncguard/nestjs";',
].join(" ");

/** Returns TypeScript's messages about the blocks, with the pages' lines. */
export async function typeErrors(blocks) {
  const folder = join(FOLDER, "typed");
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  for (const block of blocks) {
    const { words, text } = block;
    const code = words.includes("member")
      ? `${NEST} class Example { [name: string]: any; ${text}}`
      : text;
    writeFileSync(join(folder, fileOf(block)), code);
  }
  // The reader's own backend, on the page that says how to write one.
  writeFileSync(
    join(folder, "my-backend.js"),
    'export { createMyBackend } from "./stand-in.js";\n',
  );
  writeFileSync(
    join(folder, "stand-in.d.ts"),
    'export function createMyBackend(url: string): import("syncguard").LockBackend;\n',
  );
  const config = {
    compilerOptions: {
      target: "es2022",
      lib: ["es2023", "esnext.disposable"],
      module: "nodenext",
      types: ["node"],
      jsx: "preserve",
      allowJs: true,
      checkJs: true,
      strict: true,
      noImplicitAny: false,
      strictPropertyInitialization: false,
      experimentalDecorators: true,
      skipLibCheck: true,
      noEmit: true,
    },
    include: ["./*", join(STAND_INS, "*.d.ts")],
  };
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify(config));
  const tsc = join(ROOT, "node_modules/typescript/bin/tsc");
  const { stdout } = await execute(process.execPath, [tsc, "-p", folder, "--pretty", "false"], {
    cwd: folder,
    maxBuffer: 1e8,
  }).catch((error) => error);
  const byFile = new Map(blocks.map((block) => [fileOf(block), block]));
  return stdout
    .split("\n")
    .filter((line) => line.includes("error TS"))
    .map((line) => {
      const [, file, row, message] = /^([^(]+)\((\d+),\d+\): error (.*)$/.exec(line) ?? [];
      const block = byFile.get(file);
      return block ? `${block.page}:${block.line + Number(row) - 1} ${message}` : line;
    });
}

const SERVERS = {
  REDIS_URL: /redis:\/\/cache\.internal:6379/g,
  POSTGRES_URL: /postgres:\/\/db\.internal\/app/g,
};

/** Whether a program needs a server. */
export const needsServer = ({ text }) =>
  Object.entries(SERVERS).some(([name, url]) => text.includes(name) || text.search(url) >= 0) ||
  text.includes("DATABASE_URL");

/** Runs a block as a program, and returns what it prints. */
export async function runBlock(block) {
  const folder = join(FOLDER, "run");
  mkdirSync(folder, { recursive: true });
  const state = mkdtempSync(join(tmpdir(), "syncguard-docs-"));
  const file = join(folder, fileOf({ ...block, lang: "js" }));
  let { text } = block;
  for (const [name, url] of Object.entries(SERVERS)) {
    if (process.env[name]) text = text.replaceAll(url, process.env[name]);
  }
  writeFileSync(file, text);
  try {
    const standIns = ["--import", join(STAND_INS, "stand-ins.mjs")];
    const { stdout } = await execute(process.execPath, [...standIns, file], {
      cwd: state,
      timeout: 30_000,
      env: {
        ...process.env,
        DATABASE_URL: process.env.POSTGRES_URL,
        SYNCGUARD_STATE_DIR: state,
        SYNCGUARD_URL: "",
        NODE_ENV: "",
      },
    });
    return stdout;
  } finally {
    rmSync(state, { recursive: true, force: true });
  }
}
