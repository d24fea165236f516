// setupSchema(), and operations without the tables.

import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { readFile } from "node:fs/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createPostgresBackend, setupSchema } from "../../js/postgres.js";
import { startPostgres } from "../../scripts/servers.mjs";
import { connect, tables } from "./open.js";

const schemaFile = fileURLToPath(
  new URL("../../src/backend/postgres/sql/schema.sql", import.meta.url),
);
const ttlMs = 60_000;
let sql;
beforeAll(() => {
  sql = connect();
});
afterAll(() => sql.end());

const columns = (schema, table) => sql`
  SELECT column_name, data_type, is_nullable, column_default FROM information_schema.columns
  WHERE table_schema = ${schema} AND table_name = ${table} ORDER BY ordinal_position`;
const indexes = async (schema, table) => {
  const found = await sql`
    SELECT indexdef FROM pg_indexes WHERE schemaname = ${schema} AND tablename = ${table}`;
  return found
    .map(({ indexdef }) => /^CREATE (.*)INDEX .* (\(.*\))$/.exec(indexdef).slice(1))
    .sort();
};

test("without the tables each operation fails with a message that says what to do", async () => {
  const backend = createPostgresBackend(process.env.POSTGRES_URL, tables());
  for (const operation of [
    () => backend.acquire({ key: "k", ttlMs }),
    () => backend.release({ lockId: "A".repeat(22) }),
    () => backend.extend({ lockId: "A".repeat(22), ttlMs }),
    () => backend.isLocked({ key: "k" }),
    () => backend.lookup({ key: "k" }),
  ]) {
    await expect(operation()).rejects.toMatchObject({
      code: "InvalidArgument",
      message: expect.stringMatching(/setupSchema\(\).*npx syncguard schema .*--apply/),
      context: { sqlstate: "42P01" },
    });
  }
  await backend.close();
});

test("a backend that was opened before the tables existed works once they do", async () => {
  const names = tables();
  const backend = createPostgresBackend(process.env.POSTGRES_URL, names);
  await expect(backend.isLocked({ key: "k" })).rejects.toMatchObject({ code: "InvalidArgument" });
  await setupSchema(process.env.POSTGRES_URL, names);
  expect(await backend.isLocked({ key: "k" })).toBe(false);
  await backend.close();
});

test("ten processes may call it at once, and again", async () => {
  const names = tables();
  const module = new URL("../../js/postgres.js", import.meta.url);
  const script = `import { setupSchema } from ${JSON.stringify(module)};
    await setupSchema(process.env.POSTGRES_URL, ${JSON.stringify(names)});`;
  const run = () => promisify(execFile)(process.execPath, ["--input-type=module", "-e", script]);
  await Promise.all(Array.from({ length: 10 }, run));
  await setupSchema(process.env.POSTGRES_URL, names);

  expect(await columns("public", names.tableName)).toMatchObject([
    { column_name: "key", data_type: "text", is_nullable: "NO" },
    { column_name: "lock_id", data_type: "text", is_nullable: "NO" },
    { column_name: "expires_at_ms", data_type: "bigint", is_nullable: "NO" },
    { column_name: "acquired_at_ms", data_type: "bigint", is_nullable: "NO" },
    { column_name: "fence", data_type: "text", is_nullable: "NO" },
    { column_name: "user_key", data_type: "text", is_nullable: "NO" },
  ]);
  expect(await indexes("public", names.tableName)).toEqual([
    ["", "(expires_at_ms)"],
    ["UNIQUE ", "(key)"],
    ["UNIQUE ", "(lock_id)"],
  ]);
  expect(await columns("public", names.fenceTableName)).toMatchObject([
    { column_name: "fence_key", data_type: "text", is_nullable: "NO" },
    { column_name: "fence", data_type: "bigint", is_nullable: "NO", column_default: "0" },
    { column_name: "key_debug", data_type: "text", is_nullable: "YES" },
  ]);
}, 120_000);

test("running it again does not disturb those who hold or acquire locks", async () => {
  const names = tables();
  await setupSchema(process.env.POSTGRES_URL, names);
  const backend = createPostgresBackend(process.env.POSTGRES_URL, names);
  // An open transaction. DDL would wait for it, and everybody else for the DDL.
  await sql.begin(async (tx) => {
    await tx`DELETE FROM ${sql(names.tableName)}`;
    await setupSchema(process.env.POSTGRES_URL, { ...names, operationTimeoutMs: 2_000 });
    expect(await backend.acquire({ key: "k", ttlMs })).toMatchObject({ ok: true });
  });
  await backend.close();
});

test("tables in a schema, with names that need quotes", async () => {
  const { tableName: schema } = tables();
  const names = { tableName: `${schema}.User`, fenceTableName: `${schema}.select` };
  await expect(setupSchema(process.env.POSTGRES_URL, names)).rejects.toMatchObject({
    code: "InvalidArgument",
    context: { sqlstate: "3F000" },
  });
  await sql`CREATE SCHEMA ${sql(schema)}`;
  await setupSchema(process.env.POSTGRES_URL, names);
  const backend = createPostgresBackend(process.env.POSTGRES_URL, names);
  const held = await backend.acquire({ key: "k", ttlMs });
  expect(await sql`SELECT key, fence FROM ${sql(schema)}."User"`).toEqual([
    { key: "k", fence: held.fence },
  ]);
  expect(await sql`SELECT fence FROM ${sql(schema)}."select"`).toEqual([{ fence: "1" }]);
  expect(await held.release()).toEqual({ ok: true });
  await backend.close();
});

test.each([
  "",
  "a b",
  "a;b",
  'a"b',
  "a'b",
  "a.b.c",
  ".a",
  "a.",
  "1a",
  "a-b",
  "täble",
  "a$1",
  "x".repeat(64),
  7,
  null,
])("the table name %j is refused", async (tableName) => {
  for (const names of [{ tableName }, { fenceTableName: tableName }]) {
    expect(() => createPostgresBackend("postgres://h/d", names)).toThrow(
      expect.objectContaining({ code: "InvalidArgument" }),
    );
    await expect(setupSchema("postgres://h/d", names)).rejects.toMatchObject({
      code: "InvalidArgument",
    });
  }
});

test("the two tables must differ", () => {
  const names = { tableName: "app.t", fenceTableName: "app.t" };
  expect(() => createPostgresBackend("postgres://h/d", names)).toThrow(/must differ/);
});

test("the SQL file creates the same tables, for a role with no other rights", async () => {
  const server = await startPostgres();
  try {
    await server.psql(await readFile(schemaFile, "utf8"));
    await server.psql(await readFile(schemaFile, "utf8"));
    await server.psql(`CREATE ROLE app LOGIN;
      GRANT SELECT, INSERT, UPDATE, DELETE ON syncguard_locks, syncguard_fence_counters TO app`);
    const url = server.url.replace("//syncguard@", "//app@");
    await setupSchema(url);
    await setupSchema(url);
    const backend = createPostgresBackend(url);
    const held = await backend.acquire({ key: "k", ttlMs });
    expect(await held.extend(ttlMs)).toMatchObject({ ok: true });
    expect(await held.release()).toEqual({ ok: true });
    await backend.close();
    await expect(setupSchema(url, tables())).rejects.toMatchObject({
      code: "AuthFailed",
      context: { sqlstate: "42501" },
    });
    await server.psql("REVOKE DELETE ON syncguard_locks FROM app");
    const weak = createPostgresBackend(url);
    const kept = await weak.acquire({ key: "k", ttlMs });
    await expect(kept.release()).rejects.toMatchObject({ code: "AuthFailed" });
    await weak.close();
  } finally {
    await server.stop();
  }
});
