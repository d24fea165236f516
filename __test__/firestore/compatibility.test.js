// Our backend and a second implementation on the same documents.

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { collections, google, open } from "./open.js";
import { createSecond } from "./second.js";

const names = collections();
let db, ours, theirs;
beforeAll(() => {
  db = google();
  ours = open(names);
  theirs = createSecond(db, names);
});
afterAll(() => Promise.all([ours.close(), db.terminate()]));

const ttlMs = 30_000;
const long = "\u{10FFFF}".repeat(128);
const planes = String.fromCodePoint(...Array.from({ length: 17 }, (_, n) => n * 0x10000 + 0x100));
const keys = [
  "plain",
  "a/b",
  "/",
  ".",
  "..",
  "__x__",
  "____",
  "a b%2F#",
  "é",
  "日本語",
  "😀",
  planes,
  long,
];

describe.each(keys)("key %j", (key) => {
  test("each implementation respects, extends and releases the other's lock", async () => {
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
    // The key was acquired four times before, with one counter.
    const last = await ours.acquire({ key, ttlMs });
    expect(last.fence).toBe("000000000000005");
  });
});

test("the documents have the documented fields", async () => {
  const before = Date.now();
  const held = await ours.acquire({ key: "documents", ttlMs });
  const lock = await db.collection(names.collection).doc("documents").get();
  const { acquiredAtMs } = lock.data();
  expect(lock.data()).toStrictEqual({
    lockId: held.lockId,
    expiresAtMs: held.expiresAtMs,
    acquiredAtMs: held.expiresAtMs - ttlMs,
    key: "documents",
    fence: "000000000000001",
  });
  expect(acquiredAtMs).toBeGreaterThanOrEqual(before);
  expect(acquiredAtMs).toBeLessThanOrEqual(Date.now());
  const counter = db.collection(names.fenceCollection).doc("fence:documents");
  const counted = { fence: "000000000000001", keyDebug: "documents" };
  expect((await counter.get()).data()).toStrictEqual(counted);
  await ours.release({ lockId: held.lockId });
  expect((await lock.ref.get()).exists).toBe(false);
  expect((await counter.get()).data()).toStrictEqual(counted);
});

test("both together never repeat or lose a fence", async () => {
  const key = "together";
  const fences = [];
  const worker = async (backend, times) => {
    while (times > 0) {
      // The second implementation holds locks on the server, so either may be refused for a while.
      const held = await backend.acquire({ key, ttlMs }).catch(() => ({ ok: false }));
      if (!held.ok) continue;
      fences.push(held.fence);
      while (!(await backend.release({ lockId: held.lockId }).catch(() => ({ ok: false }))).ok);
      times--;
    }
  };
  await Promise.all([worker(ours, 5), worker(ours, 5), worker(theirs, 3)]);
  const expected = Array.from({ length: 13 }, (_, n) => String(n + 1).padStart(15, "0"));
  expect(fences).toEqual(expected);
}, 60_000);

test("a holder label is an additional field, which the other implementation keeps", async ({
  onTestFinished,
}) => {
  const holderLabel = "web-1:42";
  const labelled = open({ ...names, holderLabel });
  onTestFinished(() => labelled.close());
  const held = await labelled.acquire({ key: "labelled", ttlMs });
  const document = db.collection(names.collection).doc("labelled");
  expect((await document.get()).data()).toStrictEqual({
    lockId: held.lockId,
    expiresAtMs: held.expiresAtMs,
    acquiredAtMs: held.expiresAtMs - ttlMs,
    key: "labelled",
    fence: held.fence,
    holderLabel,
  });
  expect(await theirs.extend({ lockId: held.lockId, ttlMs: 2 * ttlMs })).toMatchObject({
    ok: true,
  });
  expect(await ours.lookup({ key: "labelled" })).toMatchObject({ holderLabel });
  expect(await theirs.release({ lockId: held.lockId })).toEqual({ ok: true });
  // The second implementation stores no label.
  const next = await theirs.acquire({ key: "labelled", ttlMs });
  expect(await ours.lookup({ key: "labelled" })).not.toHaveProperty("holderLabel");
  await theirs.release({ lockId: next.lockId });
});
