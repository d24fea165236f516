// The document of a shared key, and implementations that know only exclusive locks.

import { afterAll, expect, test } from "vitest";
import { generateLockId, hold, lock, tryHold } from "../fixtures/api.js";
import { until } from "../fixtures/wait.js";
import { collections, google, open } from "./open.js";
import { createSecond } from "./second.js";

const names = collections();
const db = google();
const ours = open({ ...names, holderLabel: "web-1" });
const unlabelled = open(names);
const theirs = createSecond(db, names);
afterAll(() => Promise.all([ours.close(), unlabelled.close(), db.terminate()]));

const ttlMs = 30_000;
const document = (key) => db.collection(names.collection).doc(key);
const stored = async (key) => (await document(key).get()).data();

test("the document has the fields of an exclusive lock, and its holders", async () => {
  const key = "fields";
  const share = { key, mode: "shared" };
  const first = await ours.acquire({ ...share, ttlMs: 60_000 });
  const second = await unlabelled.acquire({ ...share, ttlMs });
  const { lockId, ...fields } = await stored(key);
  expect([first.lockId, second.lockId]).not.toContain(lockId);
  expect(lockId).toMatch(/^[\w-]{22}$/);
  const acquiredAtMs = second.expiresAtMs - ttlMs;
  expect(fields).toStrictEqual({
    expiresAtMs: first.expiresAtMs,
    acquiredAtMs,
    key,
    fence: second.fence,
    holderIds: [first.lockId, second.lockId],
    holders: [
      {
        lockId: first.lockId,
        expiresAtMs: first.expiresAtMs,
        acquiredAtMs: first.expiresAtMs - 60_000,
        fence: first.fence,
        slot: 0,
        holderLabel: "web-1",
      },
      {
        lockId: second.lockId,
        expiresAtMs: second.expiresAtMs,
        acquiredAtMs,
        fence: second.fence,
        slot: 1,
      },
    ],
  });
  const counter = await db.collection(names.fenceCollection).doc(`fence:${key}`).get();
  expect(counter.data()).toStrictEqual({ fence: second.fence, keyDebug: key });

  await first.release();
  const left = await stored(key);
  expect(left).toMatchObject({ expiresAtMs: second.expiresAtMs, holderIds: [second.lockId] });
  expect(left.lockId).not.toBe(lockId);
  await second.release();
  expect((await document(key).get()).exists).toBe(false);
});

test("an exclusive lock is stored as before, also after holders that have expired", async () => {
  const key = "exclusive";
  await ours.acquire({ key, ttlMs: 1, concurrency: 3 });
  await until(async () => !(await ours.isLocked({ key })));
  const held = await unlabelled.acquire({ key, ttlMs });
  expect(await stored(key)).toStrictEqual({
    lockId: held.lockId,
    expiresAtMs: held.expiresAtMs,
    acquiredAtMs: held.expiresAtMs - ttlMs,
    key,
    fence: "000000000000002",
  });
  await held.release();
});

test("another implementation sees a lock that is not its own, and cannot damage it", async () => {
  const key = "others";
  const first = await ours.acquire({ key, ttlMs, concurrency: 2 });
  const second = await ours.acquire({ key, ttlMs, concurrency: 2 });
  const before = await stored(key);
  expect(await theirs.isLocked({ key })).toBe(true);
  expect(await theirs.acquire({ key, ttlMs })).toMatchObject({ ok: false, reason: "locked" });
  for (const lockId of [first.lockId, second.lockId, generateLockId()]) {
    expect(await theirs.release({ lockId })).toEqual({ ok: false });
    expect(await theirs.extend({ lockId, ttlMs: 1 })).toEqual({ ok: false });
  }
  expect(await stored(key)).toStrictEqual(before);
  expect(await theirs.lookup({ key })).toMatchObject({ key, fence: second.fence });
  expect((await first.extend(2 * ttlMs)).ok).toBe(true);
  await first.release();
  expect(await theirs.acquire({ key, ttlMs })).toMatchObject({ ok: false });
  await second.release();
  const next = await theirs.acquire({ key, ttlMs });
  expect(next).toMatchObject({ ok: true, fence: "000000000000003" });
  expect(await tryHold(ours, { key, mode: "shared" })).toBe(null);
  await theirs.release(next);
});

test("another implementation takes over a key whose holders have expired", async () => {
  const key = "expired";
  const former = [
    await ours.acquire({ key, ttlMs: 1, mode: "shared" }),
    await unlabelled.acquire({ key, ttlMs: 1, mode: "shared" }),
  ];
  await until(async () => !(await theirs.isLocked({ key })));
  const next = await theirs.acquire({ key, ttlMs });
  expect(next).toMatchObject({ ok: true, fence: "000000000000003" });
  const taken = await stored(key);
  for (const { lockId } of former) {
    for (const backend of [ours, unlabelled]) {
      expect(await backend.extend({ lockId, ttlMs })).toMatchObject({ ok: false });
      expect(await backend.release({ lockId })).toEqual({ ok: false });
    }
  }
  expect(await stored(key)).toStrictEqual(taken);
  await theirs.release(next);
});

test("a waiting writer's mark is in the record, and goes with the writer", async () => {
  const key = "mark";
  const reader = await hold(ours, { key, mode: "shared" });
  const { lockId } = await stored(key);
  const aborter = new AbortController();
  const writer = hold(unlabelled, { key, signal: aborter.signal });
  await until(async () => (await stored(key)).mark !== undefined);
  const marked = await stored(key);
  expect(marked.mark).toStrictEqual({
    id: expect.stringMatching(/^[\w-]{22}$/),
    untilMs: expect.any(Number),
  });
  // Nobody can enter because of a mark, so other waiters need not know of it.
  expect(marked.lockId).toBe(lockId);
  aborter.abort();
  await expect(writer).rejects.toMatchObject({ code: "Aborted" });
  await until(async () => (await stored(key)).mark === undefined);
  await reader.release();
});

test("another implementation may acquire a key that has only a mark", async () => {
  const key = "only a mark";
  const mark = { id: generateLockId(), untilMs: Date.now() + ttlMs };
  const held = await ours.acquire({ key, ttlMs, mode: "shared" });
  await document(key).update({ mark });
  await held.release();
  expect(await stored(key)).toMatchObject({ expiresAtMs: 0, holders: [], holderIds: [], mark });
  expect(await ours.isLocked({ key })).toBe(false);
  expect(await tryHold(ours, { key, mode: "shared" })).toBe(null);
  const next = await theirs.acquire({ key, ttlMs });
  expect(next.ok).toBe(true);
  await theirs.release(next);
  const reader = await tryHold(ours, { key, mode: "shared" });
  expect(reader.slot).toBe(0);
  await reader.release();
});

test("a writer gets its turn among readers that come and go on several connections", async () => {
  const key = "steady";
  const backends = [ours, unlabelled, open(names), open(names)];
  let [writers, isOver] = [0, false];
  const readers = Array.from({ length: 20 }, async (_, n) => {
    while (!isOver) {
      const read = ({ slot }) => {
        expect(writers).toBe(0);
        return slot;
      };
      await lock(backends[n % 4], read, {
        key,
        mode: "shared",
        acquisition: { timeoutMs: 60_000 },
      });
    }
  });
  for (let turn = 0; turn < 2; turn++) {
    const write = () => {
      writers += 1;
      return new Promise((resolve) => setTimeout(resolve, 5)).then(() => {
        writers -= 1;
      });
    };
    await lock(backends[turn], write, { key, acquisition: { timeoutMs: 60_000 } });
  }
  isOver = true;
  await Promise.all(readers);
  await Promise.all(backends.slice(2).map((backend) => backend.close()));
  expect(await ours.isLocked({ key })).toBe(false);
});
