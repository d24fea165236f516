// syncguard schema prints and applies PostgreSQL's schema. Also tests the errors without the schema.

import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ROOT } from "../fixtures/node.js";
import { connect as connectPostgres } from "../postgres/open.js";
import { BACKENDS, connect } from "./backends.js";
import { cli } from "./cli.js";

const unique = () => `t_${randomBytes(6).toString("hex")}`;

describe("PostgreSQL", () => {
  const url = process.env.POSTGRES_URL;
  let sql;
  beforeAll(() => {
    sql = connectPostgres();
  });
  afterAll(() => sql.end());

  const tablesOf = async (prefix) => {
    const found = await sql`SELECT tablename FROM pg_tables WHERE tablename LIKE ${`${prefix}%`}`;
    return found.map(({ tablename }) => tablename).sort();
  };

  test.each([
    ["run", (args) => ["run", "k", ...args, "--", "echo", "never"]],
    ["run -n", (args) => ["run", "k", "-n", ...args, "--", "echo", "never"]],
    ["ls", (args) => ["ls", ...args]],
    ["show", (args) => ["show", "k", ...args]],
    ["release", (args) => ["release", "k", "--force", ...args]],
  ])("without the tables %s says what to do, and that waiting does not help", async (_, line) => {
    const prefix = unique();
    const { code, stdout, stderr } = await cli(line(["--url", url, "--prefix", prefix]));
    expect([code, stdout]).toEqual([78, ""]);
    expect(stderr).toMatch(/^syncguard: [^\n]*npx syncguard schema [^\n]*--apply[^\n]*\.\n$/);
    expect(stderr).toContain("setupSchema()");
    expect(stderr).toContain(`npx syncguard schema --prefix ${prefix} `);
  });

  test("a missing database counts as not set up", async () => {
    const elsewhere = new URL(url);
    elsewhere.pathname = `/${unique()}`;
    expect((await cli(["ls", "--url", elsewhere.href])).code).toBe(78);
  });

  test("it prints the SQL, and --apply can run it repeatedly", async () => {
    const prefix = unique();
    const args = ["--url", url, "--prefix", prefix];
    const printed = await cli(["schema", ...args]);
    expect(printed).toMatchObject({ code: 0, stderr: "" });
    expect(await tablesOf(prefix)).toEqual([]);

    for (let times = 0; times < 2; times += 1) {
      const applied = await cli(["schema", "--apply", ...args]);
      expect(applied).toMatchObject({ code: 0, stdout: "The tables exist.\n", stderr: "" });
    }
    const tables = [`${prefix}_fence_counters`, `${prefix}_locks`, `${prefix}_locks_holders`];
    expect(await tablesOf(prefix)).toEqual(tables);
    expect(await cli(["run", "k", ...args, "--", "echo", "in"])).toMatchObject({
      code: 0,
      stdout: "in\n",
    });
    // By hand where they exist: nothing changes.
    await sql.unsafe(printed.stdout);
    expect(await sql`SELECT fence FROM ${sql(tables[0])}`).toEqual([{ fence: "1" }]);
  });

  test("the printed SQL creates the tables when run by hand", async () => {
    const prefix = unique();
    const nowhere = ["--url", "postgres://user:s3cret@127.0.0.1:1/db", "--prefix", prefix];
    const { code, stdout } = await cli(["schema", ...nowhere]);
    expect(code).toBe(0);
    expect(stdout).not.toContain("s3cret");
    await sql.unsafe(stdout);
    const args = ["--url", url, "--prefix", prefix];
    expect((await cli(["run", "k", ...args, "--", "true"])).code).toBe(0);
    expect((await cli(["schema", "--apply", ...nowhere])).code).toBe(69);
  });

  test("the SQL has the table names that --prefix gives", async () => {
    const file = readFileSync(join(ROOT, "src/backend/postgres/sql/schema.sql"), "utf8");
    const { stdout } = await cli(["schema", "--url", "postgres://h/d?schema=app"]);
    expect(stdout).toContain('CREATE TABLE IF NOT EXISTS "app"."syncguard_locks" (');
    const plain = (await cli(["schema", "--url", "postgres://h/d"])).stdout;
    expect(plain.replaceAll('"', "")).toBe(file);
  });
});

test.each(BACKENDS.filter((kind) => kind !== "postgres"))("%s needs no schema", async (kind) => {
  const at = await connect(kind);
  for (const more of [[], ["--apply"]]) {
    const { code, stdout, stderr } = await cli(["schema", ...more, ...at.args]);
    expect([code, stderr]).toEqual([0, ""]);
    expect(stdout).toMatch(/^\w+ needs no schema\.\n$/);
    expect(stdout.toLowerCase()).toContain(kind);
  }
});

test("a wrong URL or prefix is wrong usage", async () => {
  const wrong = [
    ["--url", "ftp://u:s3cret@h"],
    ["--url", "memory:"],
    ["--url", "postgres://h/d", "--prefix", "a-b"],
    ["--url", "sqlite:", "--prefix", "p"],
  ];
  for (const args of wrong) {
    const { code, stdout, stderr } = await cli(["schema", ...args]);
    expect([code, stdout]).toEqual([64, ""]);
    expect(stderr).not.toContain("s3cret");
  }
});
