// Rows that this package did not write, and databases that refuse data.

import { inspect } from "node:util";
import { afterAll, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { FENCE_THRESHOLDS, generateLockId } from "../fixtures/api.js";
import { connect, open, tables } from "./open.js";

const names = tables();
const ttlMs = 60_000;
let sql, locks, counters, backend;
beforeAll(async () => {
  sql = connect();
  backend = await open(names);
  locks = sql(names.tableName);
  counters = sql(names.fenceTableName);
});
beforeEach(() => sql`TRUNCATE ${locks}, ${counters}`);
afterAll(() => Promise.all([backend.close(), sql.end()]));

const rows = () => sql`SELECT * FROM ${locks}`;

test.each([
  ["a fence that is no number", { fence: "abc" }],
  ["a fence of 19 digits", { fence: "0000000000000000001" }],
  ["a fence beyond the limit", { fence: "999999999999999" }],
  ["a lockId of another form", { lock_id: "x" }],
  ["a negative time", { acquired_at_ms: "-1" }],
  ["the end of time", { expires_at_ms: "9223372036854775807" }],
])("%s: Internal, and nothing is changed", async (_, change) => {
  await backend.acquire({ key: "k", ttlMs });
  await sql`UPDATE ${locks} SET ${sql(change)}`;
  const before = await rows();
  await expect(backend.lookup({ key: "k" })).rejects.toMatchObject({ code: "Internal" });
  expect(await backend.isLocked({ key: "k" })).toBe(true);
  expect(await backend.acquire({ key: "k", ttlMs })).toMatchObject({ ok: false });
  expect(await rows()).toEqual(before);
});

test("times before 1970 count as expired", async () => {
  const held = await backend.acquire({ key: "k", ttlMs });
  await sql`UPDATE ${locks} SET expires_at_ms = -9223372036854775808`;
  expect(await backend.isLocked({ key: "k" })).toBe(false);
  expect(await backend.lookup({ key: "k" })).toBe(null);
  expect(await held.extend(ttlMs)).toEqual({ ok: false });
  expect(await backend.acquire({ key: "k", ttlMs })).toMatchObject({
    ok: true,
    fence: "000000000000002",
  });
});

test("a lockId that was moved to another row gives access to that row only", async () => {
  const [a, b] = [
    await backend.acquire({ key: "a", ttlMs }),
    await backend.acquire({ key: "b", ttlMs }),
  ];
  await sql`UPDATE ${locks} SET lock_id = ${generateLockId()} WHERE key = 'b'`;
  expect(await b.release()).toEqual({ ok: false });
  expect(await backend.isLocked({ key: "b" })).toBe(true);
  expect(await a.release()).toEqual({ ok: true });
});

test("the last fence is granted; after it an acquire fails and writes nothing", async () => {
  const warn = vi.spyOn(console, "warn").mockImplementation(() => {});
  try {
    const last = BigInt(FENCE_THRESHOLDS.MAX) - 1n;
    await sql`INSERT INTO ${counters} (fence_key, fence) VALUES ('fence:k', ${String(last)})`;
    const held = await backend.acquire({ key: "k", ttlMs });
    expect(held.fence).toBe(FENCE_THRESHOLDS.MAX);
    expect(warn.mock.calls[0][0]).toMatch(/^\[SyncGuard\] Fence counter approaching limit/);
    await held.release();
    await expect(backend.acquire({ key: "k", ttlMs })).rejects.toMatchObject({ code: "Internal" });
    expect(await rows()).toEqual([]);
    const [{ fence }] = await sql`SELECT fence FROM ${counters}`;
    expect(fence).toBe(String(last + 1n));
  } finally {
    warn.mockRestore();
  }
});

test("the database's messages about data do not reach the caller", async () => {
  const key = "very-secret-key";
  const held = await backend.acquire({ key, ttlMs });
  const objections = {
    P0001: "RAISE EXCEPTION 'no %', NEW USING DETAIL = NEW::text",
    23514: "RAISE EXCEPTION 'no %', NEW USING ERRCODE = '23514'",
    22003: "NEW.expires_at_ms := 9223372036854775807 + NEW.expires_at_ms",
  };
  await sql.unsafe(`CREATE FUNCTION ${names.tableName}_f() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'not yet'; END $$`);
  await sql.unsafe(`CREATE TRIGGER object BEFORE UPDATE ON ${names.tableName}
    FOR EACH ROW EXECUTE FUNCTION ${names.tableName}_f()`);
  for (const [sqlstate, objection] of Object.entries(objections)) {
    await sql.unsafe(`CREATE OR REPLACE FUNCTION ${names.tableName}_f() RETURNS trigger
      LANGUAGE plpgsql AS $$ BEGIN ${objection}; RETURN NEW; END $$`);
    const error = await held.extend(ttlMs).catch((error) => error);
    expect(error.code).toBe(sqlstate === "P0001" ? "Internal" : "InvalidArgument");
    expect(error.context.sqlstate).toBe(sqlstate);
    const shown = inspect(error, { showHidden: true, depth: 0 }) + inspect(error.cause);
    expect(shown).not.toContain(key);
    expect(shown).not.toContain(held.lockId);
  }
  await sql.unsafe(`DROP FUNCTION ${names.tableName}_f CASCADE`);
  expect(await held.extend(ttlMs)).toMatchObject({ ok: true });
});
