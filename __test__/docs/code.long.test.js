// Runs the programs and statements of the documents that need a server, and the tests in them.

import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import pg from "pg";
import { setupSchema } from "syncguard/postgres";
import { beforeAll, describe, expect, test } from "vitest";
import { program } from "../../scripts/servers/programs.mjs";
import { freePort } from "../../scripts/servers/ports.mjs";
import { allBlocks, fileOf, ROOT, titleOf } from "./blocks.js";
import { needsServer, runBlock } from "./code.js";

const execute = promisify(execFile);
const { POSTGRES_URL } = process.env;
const blocks = allBlocks();
const marked = (word) => blocks.filter(({ words }) => words.includes(word));
const titled = (list) => list.map((block) => [titleOf(block), block]);

beforeAll(() => setupSchema(POSTGRES_URL));

describe("programs that need a server", () => {
  const programs = marked("run").filter(needsServer);
  test("there are some", () => expect(programs.length).toBeGreaterThan(1));
  test.each(titled(programs))("%s", async (_, block) => {
    const printed = await runBlock(block);
    const next = blocks.find(({ before }) => before === block);
    if (next?.words.includes("output")) expect(printed).toBe(next.text);
  });
});

/** Runs the tests of the documents with a test runner, all of them at once. */
async function runTests(word, args) {
  // Inside of the repository, so that imports find its packages.
  const folder = join(ROOT, "target", "docs", word);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  // Without a configuration of its own, vitest would use that of this repository.
  writeFileSync(join(folder, "vitest.config.mjs"), "export default {};\n");
  const found = marked(word);
  expect(found.length).toBeGreaterThan(0);
  for (const block of found) {
    const name = fileOf(block).replace(/\.(\w+)$/, ".test.$1");
    writeFileSync(join(folder, name), block.text);
  }
  const env = Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !/^VITEST|^TEST$|^NODE_ENV$/.test(name)),
  );
  const { stdout, stderr } = await execute(process.execPath, args(folder), { cwd: folder, env });
  return stdout + stderr;
}

test("the tests for vitest pass", async () => {
  const vitest = join(ROOT, "node_modules/vitest/vitest.mjs");
  const printed = await runTests("vitest", (folder) => [vitest, "run", "--root", folder]);
  expect(printed).toMatch(/passed/);
}, 120_000);

test("the tests for Jest pass", async () => {
  const jest = join(ROOT, "node_modules/jest/bin/jest.js");
  const printed = await runTests("jest", (folder) => [
    jest,
    "--rootDir",
    folder,
    "--testMatch",
    "**/*.test.cjs",
  ]);
  expect(printed).toMatch(/Tests: +1 passed/);
}, 120_000);

describe("SQL", () => {
  const statements = blocks.filter(({ lang }) => lang === "sql");
  /** What the documents' statements need, and what is rolled back afterwards. */
  const TABLES = `
    CREATE TABLE reports (name text PRIMARY KEY, body text);
    CREATE TABLE products (id int PRIMARY KEY, stock int);
    CREATE TABLE orders (id int PRIMARY KEY, state text);
    CREATE TABLE invoices (customer_id int, state text);
    CREATE TABLE documents (id int PRIMARY KEY, body text, version int);
    DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'app')
      THEN CREATE ROLE app; END IF; END $$;
  `;
  test("there is some", () => expect(statements.length).toBeGreaterThan(3));
  test("runs, page by page", async () => {
    const client = new pg.Client(POSTGRES_URL);
    await client.connect();
    try {
      for (const page of new Set(statements.map(({ page }) => page))) {
        await client.query("BEGIN");
        await client.query("CREATE SCHEMA docs");
        await client.query("SET LOCAL search_path = docs, public");
        await client.query(TABLES);
        for (const block of statements.filter((block) => block.page === page)) {
          await client.query(block.text).catch((error) => {
            throw new Error(`${titleOf(block)}: ${error.message}`);
          });
        }
        await client.query("ROLLBACK");
      }
    } finally {
      await client.end();
    }
  });
});

describe("settings of Redis", () => {
  const settings = blocks.filter(({ lang, text }) => lang === "ini" && text.includes("redis.conf"));
  test.each(titled(settings))("%s", async (_, { text }) => {
    const folder = mkdtempSync(join(tmpdir(), "syncguard-docs-redis-"));
    const port = await freePort();
    writeFileSync(join(folder, "redis.conf"), `${text}\nport ${port}\ndir ${folder}\nsave ""\n`);
    const server = spawn(program("redis-server"), [join(folder, "redis.conf")]);
    try {
      let printed = "";
      server.stdout.on("data", (chunk) => (printed += chunk));
      await expect
        .poll(() => printed || server.exitCode, { timeout: 10_000 })
        .toMatch(/Ready to accept connections/);
    } finally {
      const ended = once(server, "exit");
      server.kill();
      await ended;
      rmSync(folder, { recursive: true, force: true });
    }
  });

  test("the user with few rights can lock, wait and list", async () => {
    const [, command] = blocks
      .map(({ text }) => /^ACL (SETUSER locks on >secret .*)$/m.exec(text))
      .find(Boolean);
    const { Redis } = await import("ioredis");
    const { createRedisBackend } = await import("syncguard/redis");
    const { hold, listLocks, lock } = await import("syncguard");
    const admin = new Redis(process.env.REDIS_URL);
    await admin.call("ACL", ...command.split(" "));
    const url = new URL(process.env.REDIS_URL);
    url.username = "locks";
    url.password = "secret";
    const backend = createRedisBackend(url);
    try {
      const held = await hold(backend, { key: "docs" });
      const waiting = lock(backend, () => "done", { key: "docs" });
      const keys = [];
      for await (const { keyHash } of listLocks(backend)) keys.push(keyHash);
      expect(keys.length).toBeGreaterThan(0);
      await held.release();
      expect(await waiting).toBe("done");
      expect(backend.capabilities.waitsBy).toBe("notification");
    } finally {
      await backend.close();
      await admin.call("ACL", "DELUSER", "locks");
      admin.disconnect();
    }
  });
});
