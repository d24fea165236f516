// This package and another implementation of the format on the same tables.

import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createPostgresBackend, setupSchema } from "../../js/postgres.js";
import { rejection } from "../contracts/setup.js";
import { lock } from "../fixtures/api.js";
import { OverlapChecker } from "../fixtures/overlap.js";
import { deferred, until } from "../fixtures/wait.js";
import { connect, open, tables } from "./open.js";
import { createSecond } from "./second.js";

const names = tables();
let sql, ours, theirs;
beforeAll(async () => {
  sql = connect();
  ours = await open(names);
  theirs = createSecond(sql, names);
});
afterAll(() => Promise.all([ours.close(), sql.end()]));

const ttlMs = 30_000;
const keys = [
  "plain",
  "fence:plain",
  'it\'s \\ "quoted" $1 %s',
  '{"json":true}',
  "a\nb",
  "日本語 😀",
  "k".repeat(512),
  "\u{10FFFF}".repeat(128),
];

describe.each(keys)("key %j", (key) => {
  test("the other implementation sees, respects, extends and releases a lock of ours", async () => {
    for (const [one, other] of [
      [ours, theirs],
      [theirs, ours],
    ]) {
      const first = await one.acquire({ key, ttlMs });
      expect(first.ok).toBe(true);
      expect(await other.acquire({ key, ttlMs })).toMatchObject({ ok: false, reason: "locked" });
      expect(await other.isLocked({ key })).toBe(true);
      const extended = await other.extend({ lockId: first.lockId, ttlMs: ttlMs * 2 });
      expect(extended).toMatchObject({ ok: true });
      const seen = await one.lookup({ key });
      expect(seen).toMatchObject({ expiresAtMs: extended.expiresAtMs, fence: first.fence });
      expect(await other.release({ lockId: first.lockId })).toEqual({ ok: true });
      expect(await one.isLocked({ key })).toBe(false);
      expect(await one.release({ lockId: first.lockId })).toEqual({ ok: false });
      const second = await other.acquire({ key, ttlMs });
      expect(second.fence > first.fence).toBe(true);
      expect(await one.release({ lockId: second.lockId })).toEqual({ ok: true });
    }
    // Four acquisitions, one counter.
    const last = await ours.acquire({ key, ttlMs });
    expect(last.fence).toBe("000000000000005");
    await last.release();
  });
});

/** Both acquire and release one key, so many times for each of their workers. */
async function compete(key, workers, inside = () => new Promise(setImmediate)) {
  const overlap = new OverlapChecker();
  const fences = [];
  const work = async ([backend, rounds]) => {
    for (let round = 0; round < rounds;) {
      const held = await backend.acquire({ key, ttlMs });
      if (!held.ok) continue;
      const leave = overlap.enter(key, held.fence);
      fences.push(held.fence);
      await inside();
      leave();
      expect(await backend.release({ lockId: held.lockId })).toEqual({ ok: true });
      round++;
    }
  };
  await Promise.all(workers.map(work));
  expect(overlap.violations).toEqual([]);
  // In order, without duplicates or gaps.
  const expected = fences.map((_, index) => String(index + 1).padStart(15, "0"));
  expect(fences).toEqual(expected);
}

test("both together never hold a lock at once, and each fence is granted once", async () => {
  await compete("together", [
    [ours, 100],
    [ours, 100],
    [theirs, 50],
    [theirs, 50],
  ]);
}, 120_000);

/** Long enough that ours does not wait for the other to be done any more. */
const someTime = () => sleep(Math.random() * 100);
const slow = () => createSecond(sql, { ...names, pause: someTime });

test("both together, while the other implementation is slow", async () => {
  const workers = [
    [ours, 20],
    [ours, 20],
    [slow(), 10],
    [slow(), 10],
  ];
  await compete("slowly", workers, someTime);
}, 120_000);

test("both together, while an application sometimes holds the advisory lock of the other implementation", async () => {
  const key = "application";
  let done = false;
  const application = async () => {
    const session = await sql.reserve();
    while (!done) {
      await session`SELECT pg_advisory_lock(hashtext(${key}))`;
      await sleep(100);
      await session`SELECT pg_advisory_unlock(hashtext(${key}))`;
      await sleep(20);
    }
    session.release();
  };
  const workers = [
    [ours, 20],
    [ours, 20],
    [theirs, 5],
    [slow(), 5],
  ];
  const competing = compete(key, workers, someTime).finally(() => (done = true));
  await Promise.all([competing, application()]);
}, 120_000);

test("an implementation that looked at the key before our acquire stores its lock", async () => {
  const key = "turn";
  const paused = deferred();
  const looked = deferred();
  let pauses = 0;
  const other = createSecond(sql, {
    ...names,
    // The second pause begins after it has seen that there is no row.
    pause: () => ++pauses === 2 && (looked.resolve(), paused.promise),
  });
  const acquiring = other.acquire({ key, ttlMs });
  await looked.promise;
  const refused = ours.acquire({ key, ttlMs });
  await sleep(500);
  paused.resolve();
  expect(await acquiring).toMatchObject({ ok: true, fence: "000000000000001" });
  expect(await refused).toMatchObject({ ok: false, reason: "locked" });
});

describe("holder labels", () => {
  const LABEL = "web-1:42";
  const columns = (tableName) => sql`
    SELECT column_name, data_type, is_nullable FROM information_schema.columns
    WHERE table_name = ${tableName} ORDER BY ordinal_position`;

  test("are in a column of their own, which other implementations need not know", async () => {
    const names = tables();
    const plain = await open(names);
    const before = await columns(names.tableName);
    // The column is added while the tables are in use.
    const held = await plain.acquire({ key: "held", ttlMs });
    const labelled = await open({ ...names, holderLabel: LABEL });
    const added = { column_name: "holder_label", data_type: "text", is_nullable: "YES" };
    expect(await columns(names.tableName)).toEqual([...before, added]);
    expect(await plain.lookup({ key: "held" })).not.toHaveProperty("holderLabel");
    expect((await held.extend(ttlMs)).ok).toBe(true);

    const other = createSecond(sql, names);
    const { lockId } = await labelled.acquire({ key: "k", ttlMs });
    const [row] = await sql`SELECT holder_label FROM ${sql(names.tableName)} WHERE key = 'k'`;
    expect(row.holder_label).toBe(`${lockId} ${LABEL}`);
    expect(await other.acquire({ key: "k", ttlMs })).toMatchObject({ ok: false });
    expect(await other.extend({ lockId, ttlMs: 2 * ttlMs })).toMatchObject({ ok: true });
    expect((await plain.lookup({ key: "k" })).holderLabel).toBe(LABEL);
    await Promise.all([plain.close(), labelled.close()]);
  });

  test("are ignored after another implementation has replaced the row", async () => {
    const names = tables();
    const labelled = await open({ ...names, holderLabel: LABEL });
    const other = createSecond(sql, names);
    await labelled.acquire({ key: "k", ttlMs: 1 });
    await until(async () => !(await other.isLocked({ key: "k" })));
    const theirLock = await other.acquire({ key: "k", ttlMs });
    expect(theirLock.ok).toBe(true);
    const [row] = await sql`SELECT holder_label FROM ${sql(names.tableName)}`;
    expect(row.holder_label).toContain(LABEL);
    expect(await labelled.lookup({ key: "k" })).not.toHaveProperty("holderLabel");
    const error = await rejection(
      lock(labelled, () => {}, { key: "k", acquisition: { maxRetries: 0, timeoutMs: 60_000 } }),
    );
    expect(error.message).not.toContain(LABEL);
    await labelled.close();
  });

  test("without the column fail with a message that says what to do, and work once it exists", async () => {
    const names = tables();
    await setupSchema(process.env.POSTGRES_URL, names);
    const labelled = createPostgresBackend(process.env.POSTGRES_URL, {
      ...names,
      holderLabel: LABEL,
    });
    await expect(labelled.acquire({ key: "k", ttlMs })).rejects.toMatchObject({
      code: "InvalidArgument",
      message: expect.stringMatching(/setupSchema\(\).*schema .*--holder-labels/),
      context: { sqlstate: "42703" },
    });
    await setupSchema(process.env.POSTGRES_URL, { ...names, holderLabel: true });
    expect(await labelled.acquire({ key: "k", ttlMs })).toMatchObject({ ok: true });
    expect((await labelled.lookup({ key: "k" })).holderLabel).toBe(LABEL);
    await labelled.close();
  });

  test.each([7, "a\ud83d", null])("setupSchema() refuses %j", async (holderLabel) => {
    await expect(setupSchema("postgres://h/d", { holderLabel })).rejects.toMatchObject({
      code: "InvalidArgument",
      message: expect.stringContaining("holderLabel"),
    });
  });
});
