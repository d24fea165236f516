// Both implementations on the same tables.

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { OverlapChecker } from "../fixtures/overlap.js";
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
  test("the other sees the lock, honours it, extends and releases it", async () => {
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

test("both together: never two inside, and no fence is handed out twice or lost", async () => {
  const key = "together";
  const overlap = new OverlapChecker();
  const fences = [];
  const worker = async (backend, times) => {
    while (times > 0) {
      const held = await backend.acquire({ key, ttlMs });
      if (!held.ok) continue;
      const leave = overlap.enter(key, held.fence);
      fences.push(held.fence);
      await new Promise(setImmediate);
      leave();
      expect(await backend.release({ lockId: held.lockId })).toEqual({ ok: true });
      times--;
    }
  };
  await Promise.all([worker(ours, 20), worker(ours, 20), worker(theirs, 10), worker(theirs, 10)]);
  expect(overlap.violations).toEqual([]);
  const expected = Array.from({ length: 60 }, (_, n) => String(n + 1).padStart(15, "0"));
  expect(fences).toEqual(expected);
}, 60_000);

test("a takeover while they still acquire waits for their turn to end", async () => {
  const key = "turn";
  const acquiring = sql.begin(async (tx) => {
    await tx`SELECT pg_advisory_xact_lock(hashtext(${key}))`;
    const ours_ = ours.acquire({ key, ttlMs });
    const waiting = () =>
      tx`SELECT count(*)::int AS n FROM pg_locks WHERE locktype = 'advisory' AND NOT granted`;
    while ((await waiting())[0].n === 0);
    await tx`INSERT INTO ${sql(names.tableName)} VALUES
      (${key}, ${"A".repeat(22)}, ${Date.now() + ttlMs}, ${Date.now()}, '000000000000001', ${key})`;
    return { ours: ours_ };
  });
  // Their lock was not there yet when ours began to wait.
  expect(await (await acquiring).ours).toMatchObject({ ok: false, reason: "locked" });
});
