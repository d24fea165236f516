// Documents that another program wrote, with Google's client.

import { afterAll, afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { generateLockId, lock } from "../fixtures/api.js";
import { until } from "../fixtures/wait.js";
import { collections, google, open } from "./open.js";

const names = collections();
const db = google();
const backend = open(names);
const locks = db.collection(names.collection);
const counters = db.collection(names.fenceCollection);
afterAll(() => Promise.all([backend.close(), db.terminate()]));

let warn;
beforeEach(() => {
  warn = vi.spyOn(console, "warn").mockImplementation(() => {});
});
afterEach(() => warn.mockRestore());
const warnings = () => warn.mock.calls.flat().join("\n");

const stored = (key, lockId, lifetimeMs) => ({
  lockId,
  expiresAtMs: Date.now() + lifetimeMs,
  acquiredAtMs: Date.now(),
  key,
  fence: "000000000000001",
});

describe("documents with the same lockId", () => {
  test("several live ones: none is changed, and a warning says so", async () => {
    const lockId = generateLockId();
    for (const key of ["a1", "a2"]) await locks.doc(key).set(stored(key, lockId, 60_000));
    expect(await backend.release({ lockId })).toEqual({ ok: false });
    expect(await backend.extend({ lockId, ttlMs: 1 })).toEqual({ ok: false });
    expect(await backend.lookup({ lockId })).toBe(null);
    for (const key of ["a1", "a2"]) expect(await backend.isLocked({ key })).toBe(true);
    // The warning may arrive after the answers.
    await until(() => warnings().includes("[SyncGuard] 2 lock documents"));
    expect(warnings()).not.toContain(lockId);
  });

  test("expired ones are removed, and the live one is released", async () => {
    const lockId = generateLockId();
    await locks.doc("b1").set(stored("b1", lockId, 60_000));
    await locks.doc("b2").set(stored("b2", lockId, -60_000));
    expect(await backend.release({ lockId })).toEqual({ ok: true });
    expect((await locks.where("lockId", "==", lockId).get()).size).toBe(0);
  });
});

describe("lock documents with missing or malformed fields", () => {
  const garbage = [
    {},
    { expiresAtMs: "soon" },
    { expiresAtMs: null },
    { expiresAtMs: NaN, key: "not a number" },
    { expiresAtMs: { ms: 1 } },
    { expiresAtMs: -5, lockId: 7, fence: [], key: true },
  ];
  test.each(garbage)("%j is not a lock", async (data) => {
    const key = JSON.stringify(data);
    await locks.doc(key).set(data);
    expect(await backend.isLocked({ key })).toBe(false);
    expect(await backend.lookup({ key })).toBe(null);
    expect(await lock(backend, ({ fence }) => fence, { key })).toBe("000000000000001");
  });

  test("a live one without a lockId locks the key, and lookup fails", async () => {
    await locks.doc("c").set({ expiresAtMs: Date.now() + 60_000 });
    expect(await backend.isLocked({ key: "c" })).toBe(true);
    expect(await backend.acquire({ key: "c", ttlMs: 1 })).toMatchObject({ ok: false });
    await expect(backend.lookup({ key: "c" })).rejects.toMatchObject({ code: "Internal" });
  });
});

describe("counters", () => {
  const count = (key, fence) => counters.doc(`fence:${key}`).set({ fence });

  test.each(["", "x", null, -1, {}])("a damaged one (%j) never starts from zero", async (fence) => {
    const key = `damaged ${JSON.stringify(fence)}`;
    await count(key, fence);
    await expect(backend.acquire({ key, ttlMs: 1000 })).rejects.toMatchObject({ code: "Internal" });
    expect(await backend.isLocked({ key })).toBe(false);
  });

  test("fences go up to the limit, with a warning", async () => {
    await count("limit", "899999999999999");
    const last = await backend.acquire({ key: "limit", ttlMs: 60_000 });
    expect(last.fence).toBe("900000000000000");
    expect(warnings()).toContain("[SyncGuard] Fence counter approaching limit");
    await last.release();
    const beyond = backend.acquire({ key: "limit", ttlMs: 60_000 });
    await expect(beyond).rejects.toMatchObject({ code: "Internal" });
    expect(await backend.isLocked({ key: "limit" })).toBe(false);
    expect((await counters.doc("fence:limit").get()).data().fence).toBe("900000000000000");
  });
});
