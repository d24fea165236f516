// Shared keys: the rows, other implementations of the format, and databases of earlier versions.

import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createPostgresBackend, setupSchema } from "../../js/postgres.js";
import { startPostgres } from "../../scripts/servers.mjs";
import { rejection } from "../contracts/setup.js";
import { generateLockId, hold, listLocks, lock, owns, tryHold } from "../fixtures/api.js";
import { until, untilFree } from "../fixtures/wait.js";
import { connect, open, tables } from "./open.js";
import { createSecond } from "./second.js";

const names = tables();
const holdersOf = ({ tableName }) => `${tableName}_holders`;
const ttlMs = 60_000;
const schemaFile = fileURLToPath(
  new URL("../../src/backend/postgres/sql/schema.sql", import.meta.url),
);
const cli = fileURLToPath(new URL("../../js/cli.js", import.meta.url));

let sql, ours, theirs, newest;
beforeAll(async () => {
  sql = connect();
  ours = await open(names);
  theirs = createSecond(sql, names);
  newest = async (key) => {
    const [record] = await sql`SELECT * FROM ${sql(names.tableName)} WHERE key = ${key}`;
    const holders = await sql`
      SELECT * FROM ${sql(holdersOf(names))} WHERE key = ${key} ORDER BY slot`;
    return { record, holders };
  };
});
afterAll(() => Promise.all([ours.close(), sql.end()]));

describe("the stored format", () => {
  test("an exclusive lock is one row, as ever", async () => {
    const held = await ours.acquire({ key: "exclusive", ttlMs });
    const { record, holders } = await newest("exclusive");
    expect(record).toEqual({
      ...{ key: "exclusive", user_key: "exclusive", lock_id: held.lockId, fence: held.fence },
      expires_at_ms: String(held.expiresAtMs),
      acquired_at_ms: String(held.expiresAtMs - ttlMs),
    });
    expect(holders).toEqual([]);
    await held.release();
  });

  test("a shared key is a row that nobody holds, and a row for each holder", async () => {
    const key = "shared";
    const first = await ours.acquire({ key, ttlMs: 2 * ttlMs, concurrency: 2 });
    const { record: before } = await newest(key);
    const second = await ours.acquire({ key, ttlMs, concurrency: 2 });
    const { record, holders } = await newest(key);
    expect(record).toEqual({
      ...{ key, user_key: key, lock_id: before.lock_id, fence: second.fence },
      expires_at_ms: String(first.expiresAtMs),
      acquired_at_ms: String(second.expiresAtMs - ttlMs),
    });
    expect(record.lock_id).toMatch(/^[\w-]{22}$/);
    expect([first.lockId, second.lockId]).not.toContain(record.lock_id);
    expect(holders).toEqual(
      [first, second].map((held, slot) => ({
        ...{ lock_id: held.lockId, key, record_id: record.lock_id, fence: held.fence, slot },
        expires_at_ms: String(held.expiresAtMs),
        acquired_at_ms: String(held.expiresAtMs - (slot === 0 ? 2 : 1) * ttlMs),
        holder_label: null,
      })),
    );
    // The record expires with the last holder, whichever that is.
    await first.release();
    const { record: after } = await newest(key);
    expect(after).toEqual({ ...record, expires_at_ms: String(second.expiresAtMs) });
    const { expiresAtMs } = await second.extend(3 * ttlMs);
    expect((await newest(key)).record.expires_at_ms).toBe(String(expiresAtMs));
    await second.release();
    expect(await newest(key)).toEqual({ record: undefined, holders: [] });
    // The next record is another one.
    const next = await ours.acquire({ key, ttlMs, concurrency: 2 });
    expect((await newest(key)).record.lock_id).not.toBe(record.lock_id);
    await next.release();
  });

  test("a waiting writer's mark is a row without a slot, and goes with the writer", async () => {
    const key = "marked";
    const reader = await hold(ours, { key, mode: "shared" });
    const aborter = new AbortController();
    const writer = hold(ours, { key, signal: aborter.signal });
    const mark = await until(async () =>
      (await newest(key)).holders.find((row) => row.slot === null),
    );
    const { record } = await newest(key);
    expect(mark).toMatchObject({ record_id: record.lock_id, fence: null });
    expect(Number(mark.expires_at_ms - mark.acquired_at_ms)).toBeGreaterThanOrEqual(2_000);
    aborter.abort();
    expect((await rejection(writer)).code).toBe("Aborted");
    await until(async () => (await newest(key)).holders.length === 1);
    await reader.release();
  });
});

test("many holders of a key are listed in pages, each once", async () => {
  const names = tables();
  const backend = await open(names);
  const share = { key: "k", ttlMs, mode: "shared" };
  const held = await Promise.all(Array.from({ length: 120 }, () => backend.acquire(share)));
  await backend.acquire({ key: "z", ttlMs });
  const [listed, slots] = [[], new Set()];
  for await (const { key, lockId, slot } of listLocks(backend, { raw: true })) {
    listed.push(lockId);
    if (key === "k") slots.add(slot);
  }
  expect(listed.length).toBe(held.length + 1);
  expect(new Set(listed)).toContain(held[0].lockId);
  expect(slots).toEqual(new Set(held.map(({ slot }) => slot)));
  await backend.close();
}, 60_000);

describe("an implementation that knows only exclusive locks", () => {
  test("sees a shared key as locked and cannot change it", async () => {
    const key = "theirs";
    const held = [
      await ours.acquire({ key, ttlMs: 2 * ttlMs, mode: "shared" }),
      await ours.acquire({ key, ttlMs, mode: "shared" }),
    ];
    const before = await newest(key);
    expect(await theirs.isLocked({ key })).toBe(true);
    expect(await theirs.lookup({ key })).toEqual({
      expiresAtMs: held[0].expiresAtMs,
      fence: held[1].fence,
    });
    expect(await theirs.acquire({ key, ttlMs })).toEqual({ ok: false, reason: "locked" });
    for (const { lockId } of held) {
      expect(await theirs.release({ lockId })).toEqual({ ok: false });
      expect(await theirs.extend({ lockId, ttlMs })).toEqual({ ok: false });
    }
    expect(await newest(key)).toEqual(before);
    for (const share of held) expect(await share.release()).toEqual({ ok: true });
    expect(await theirs.acquire({ key, ttlMs })).toMatchObject({
      ok: true,
      fence: "000000000000003",
    });
  });

  test("its lock keeps shared holders out, and takes over from dead ones", async () => {
    const key = "taken-over";
    const dead = await ours.acquire({ key, ttlMs: 1, mode: "shared" });
    await untilFree(ours, key);
    const their = await theirs.acquire({ key, ttlMs });
    expect(their).toMatchObject({ ok: true, fence: "000000000000002" });
    // The row of the dead holder is still there.
    const { record, holders } = await newest(key);
    expect(holders).toMatchObject([{ lock_id: dead.lockId }]);
    expect(await dead.extend(ttlMs)).toEqual({ ok: false });
    expect(await dead.release()).toEqual({ ok: false });
    expect(await owns(ours, dead.lockId)).toBe(false);
    expect(await tryHold(ours, { key, mode: "shared" })).toBe(null);
    const found = await ours.lookup({ key });
    expect(found).toMatchObject({ fence: their.fence });
    expect(found).not.toHaveProperty("slot");
    const listed = [];
    for await (const entry of listLocks(ours, { raw: true })) {
      if (entry.key === key) listed.push([entry.mode, entry.lockId]);
    }
    expect(listed).toEqual([["exclusive", their.lockId]]);
    expect((await newest(key)).record).toEqual(record);
    expect(await theirs.release({ lockId: their.lockId })).toEqual({ ok: true });
    const next = await ours.acquire({ key, ttlMs, concurrency: 1, mode: "shared" });
    expect(next).toMatchObject({ ok: true, slot: 0, fence: "000000000000003" });
    expect((await newest(key)).holders).toMatchObject([{ lock_id: next.lockId }]);
    await next.release();
  });

  test("competes with shared holders, who are never inside together with it", async () => {
    const key = "competing";
    let [sharing, alone] = [0, 0];
    const share = async (rounds) => {
      for (let round = 0; round < rounds;) {
        const held = await ours.acquire({ key, ttlMs, concurrency: 3 });
        if (!held.ok) continue;
        sharing += 1;
        expect([sharing <= 3, alone]).toEqual([true, 0]);
        await new Promise(setImmediate);
        sharing -= 1;
        expect(await held.release()).toEqual({ ok: true });
        round++;
      }
    };
    const exclude = async (backend, rounds) => {
      for (let round = 0; round < rounds;) {
        const held = await backend.acquire({ key, ttlMs });
        if (!held.ok) continue;
        expect([sharing, alone++]).toEqual([0, 0]);
        await new Promise(setImmediate);
        alone -= 1;
        expect(await backend.release({ lockId: held.lockId })).toEqual({ ok: true });
        round++;
      }
    };
    await Promise.all([
      ...Array.from({ length: 4 }, () => share(25)),
      exclude(ours, 5),
      exclude(theirs, 5),
    ]);
  }, 120_000);
});

describe("a database that was set up by an earlier version", () => {
  /** Tables without the one for holders, and a backend on them. */
  async function earlier(options) {
    const old = tables();
    await setupSchema(process.env.POSTGRES_URL, old);
    await sql`DROP TABLE ${sql(holdersOf(old))}`;
    const backend = createPostgresBackend(process.env.POSTGRES_URL, { ...old, ...options });
    return { old, backend };
  }

  test.each([{}, { prepare: false }])("keeps exclusive locks %j", async (options) => {
    const { backend } = await earlier(options);
    const held = await backend.acquire({ key: "k", ttlMs });
    expect(await held.extend(ttlMs)).toMatchObject({ ok: true });
    expect((await backend.acquire({ key: "k", ttlMs })).ok).toBe(false);
    expect(await backend.lookup({ key: "k" })).toMatchObject({ fence: held.fence });
    expect(await owns(backend, held.lockId)).toBe(true);
    const listed = [];
    for await (const { key } of listLocks(backend, { raw: true })) listed.push(key);
    expect(listed).toEqual(["k"]);
    const waiting = lock(backend, () => "mine", { key: "k", acquisition: { timeoutMs: 20_000 } });
    expect(await held.release()).toEqual({ ok: true });
    expect(await waiting).toBe("mine");
    // The last character of a lockId says whether it is one of a shared key. None finds anything.
    for (const end of ["A", "B", "C", "D", "Q", "R"]) {
      const lockId = generateLockId().slice(0, 21) + end;
      expect(await backend.release({ lockId })).toEqual({ ok: false });
      expect(await backend.extend({ lockId, ttlMs })).toEqual({ ok: false });
      expect(await backend.lookup({ lockId })).toBe(null);
    }
    await backend.close();
  });

  test("refuses a shared acquire with an error that says what to do, until that is done", async () => {
    const { old, backend } = await earlier();
    for (const share of [{ mode: "shared" }, { concurrency: 2 }]) {
      const error = await rejection(backend.acquire({ key: "k", ttlMs, ...share }));
      expect(error).toMatchObject({ code: "InvalidArgument", context: { sqlstate: "42P01" } });
      expect(error.message).toContain(holdersOf(old));
      expect(error.message).toMatch(/npx syncguard schema --url .* --apply.*setupSchema\(\)/);
      expect(await rejection(lock(backend, () => {}, { key: "k", ...share }))).toMatchObject({
        code: "InvalidArgument",
      });
    }
    const [prefix] = old.tableName.split("_locks");
    const url = process.env.POSTGRES_URL;
    const run = (...args) => promisify(execFile)(process.execPath, [cli, ...args, "--url", url]);
    const { stdout } = await run("schema", "--prefix", prefix);
    expect(stdout).toContain(holdersOf(old));
    await setupSchema(url, old);
    const shared = await backend.acquire({ key: "k", ttlMs, concurrency: 2 });
    expect(shared).toMatchObject({ ok: true, slot: 0 });
    expect(await shared.release()).toEqual({ ok: true });
    await backend.close();
  });

  test("a table that was dropped and made again is used at once", async () => {
    const names = tables();
    const backend = await open(names);
    const share = { key: "k", ttlMs, mode: "shared" };
    expect((await backend.acquire(share)).ok).toBe(true);
    await sql`DROP TABLE ${sql(holdersOf(names))}`;
    expect((await rejection(backend.acquire(share))).code).toBe("InvalidArgument");
    expect(await backend.isLocked({ key: "k" })).toBe(true);
    await setupSchema(process.env.POSTGRES_URL, names);
    // The record has lost its holders, so nobody knows how many there are: it is left to expire.
    expect((await backend.acquire(share)).ok).toBe(false);
    expect((await backend.acquire({ ...share, key: "other" })).ok).toBe(true);
    await backend.close();
  });
});

test("the SQL file creates the table for a role with the documented rights", async () => {
  const server = await startPostgres();
  try {
    await server.psql(await readFile(schemaFile, "utf8"));
    await server.psql(`CREATE ROLE app LOGIN; GRANT SELECT, INSERT, UPDATE, DELETE
      ON syncguard_locks, syncguard_fence_counters, syncguard_locks_holders TO app`);
    const url = server.url.replace("//syncguard@", "//app@");
    await setupSchema(url);
    const backend = createPostgresBackend(url);
    const share = { key: "k", ttlMs, concurrency: 2 };
    const held = [await backend.acquire(share), await backend.acquire(share)];
    expect(held.map(({ slot }) => slot)).toEqual([0, 1]);
    expect(await held[0].extend(ttlMs)).toMatchObject({ ok: true });
    for (const one of held) expect(await one.release()).toEqual({ ok: true });

    await server.psql("REVOKE ALL ON syncguard_locks_holders FROM app");
    expect((await rejection(backend.acquire(share))).code).toBe("AuthFailed");
    const exclusive = await backend.acquire({ key: "k", ttlMs });
    expect(await exclusive.release()).toEqual({ ok: true });
    await backend.close();
  } finally {
    await server.stop();
  }
});

test("long names and names in a schema lead to a table of their own", async () => {
  const { tableName: schema } = tables();
  await sql`CREATE SCHEMA ${sql(schema)}`;
  const long = "l".repeat(62);
  for (const options of [
    { tableName: `${schema}.${long}1`, fenceTableName: `${schema}.fences` },
    { tableName: `${schema}.${long}2`, fenceTableName: `${schema}.fences` },
    // The table of holders must be another one than that of the counters.
    { tableName: `${schema}.t`, fenceTableName: `${schema}.t_holders` },
  ]) {
    const backend = await open(options);
    const held = await backend.acquire({ key: "k", ttlMs, concurrency: 2 });
    expect(held).toMatchObject({ ok: true, slot: 0 });
    expect(await held.release()).toEqual({ ok: true });
    await backend.close();
  }
  const found = await sql`SELECT tablename FROM pg_tables WHERE schemaname = ${schema}`;
  expect(found.length).toBe(8);
});
