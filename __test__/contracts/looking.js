// listLocks(), forceRelease() and diagnose(), which only the backends of this package support.

import { inspect } from "node:util";
import { describe, expect, test } from "vitest";
import { LockError, diagnose, forceRelease, hold, listLocks, lock, owns } from "../fixtures/api.js";
import { NOISE_MS, aborted, deferred, turn, untilFree } from "../fixtures/wait.js";
import { hashOf, rejection } from "./setup.js";

// The wait is so long that only the test can end it.
const ENDLESS = { retryDelayMs: 300_000, timeoutMs: 600_000, backoff: "fixed", jitter: "none" };

async function all(listing) {
  const found = [];
  for await (const one of listing) found.push(one);
  return found;
}

const byKeyHash = (a, b) => (a.keyHash < b.keyHash ? -1 : 1);

export function looking(t) {
  if (!t.native) {
    test.concurrent("they refuse a custom backend", async () => {
      const backend = await t.backend();
      for (const call of [
        all(listLocks(backend)),
        forceRelease(backend, { key: "k" }),
        diagnose(backend),
      ]) {
        const error = await rejection(call);
        expect(error).toBeInstanceOf(LockError);
        expect(error.code).toBe("InvalidArgument");
      }
    });
    return;
  }

  describe.concurrent("listLocks", () => {
    test("lists the live locks, with the fields of lookup", async () => {
      const backend = await t.isolated();
      expect(await all(listLocks(backend))).toEqual([]);
      const keys = ["a", "b/c", "🔒", "k".repeat(512)];
      const locks = await Promise.all(keys.map((key) => backend.acquire({ key, ttlMs: 60_000 })));
      await (await backend.acquire({ key: "released", ttlMs: 60_000 })).release();
      await backend.acquire({ key: "expired", ttlMs: 1 });
      await untilFree(backend, "expired");
      const told = await Promise.all(
        keys.map(async (key) => ({ ...(await backend.lookup({ key })), mode: "exclusive" })),
      );
      const found = await all(listLocks(backend));
      expect(found.sort(byKeyHash)).toEqual(told.sort(byKeyHash));
      for (const text of [JSON.stringify(found), inspect(found)]) {
        expect(text).not.toContain("b/c");
        for (const { lockId } of locks) expect(text).not.toContain(lockId);
      }
    });

    test("raw adds key and lockId", async () => {
      const backend = await t.isolated();
      const { lockId } = await backend.acquire({ key: "secret", ttlMs: 60_000 });
      const info = await backend.lookup({ key: "secret" });
      const found = await all(listLocks(backend, { raw: true }));
      expect(found.map((one) => ({ ...one }))).toEqual([
        { ...info, mode: "exclusive", key: "secret", lockId },
      ]);
    });

    test("lists each lock once over several pages, and respects the limit and the end of the loop", async () => {
      const backend = await t.isolated();
      const keys = Array.from({ length: 230 }, (_, index) => `k${index}`);
      await Promise.all(keys.map((key) => backend.acquire({ key, ttlMs: 60_000 })));
      const hashes = (found) => found.map(({ keyHash }) => keyHash).sort();
      const expected = keys.map(hashOf).sort();
      expect(hashes(await all(listLocks(backend)))).toEqual(expected);
      for (const limit of [0, 1, 100, 101, 229, 230, 1000]) {
        const found = hashes(await all(listLocks(backend, { limit })));
        expect(found).toHaveLength(Math.min(limit, 230));
        expect(new Set(found).size).toBe(found.length);
        expect(expected).toEqual(expect.arrayContaining(found));
      }
      let seen = 0;
      for await (const { fence } of listLocks(backend)) {
        expect(fence).toBe("000000000000001");
        if (++seen === 5) break;
      }
      expect(seen).toBe(5);
    });

    test("listing changes nothing", async () => {
      const backend = await t.isolated();
      const held = await backend.acquire({ key: "k", ttlMs: 60_000 });
      const before = await backend.lookup({ key: "k" });
      await all(listLocks(backend));
      expect(await backend.lookup({ key: "k" })).toEqual(before);
      expect((await held.release()).ok).toBe(true);
    });

    test("wrong options and an aborted signal are refused", async () => {
      const backend = await t.backend();
      for (const options of [
        { limit: -1 },
        { limit: 1.5 },
        { limit: "3" },
        { raw: "yes" },
        { signal: {} },
      ]) {
        expect((await rejection(all(listLocks(backend, options)))).code).toBe("InvalidArgument");
      }
      const listing = all(listLocks(backend, { signal: AbortSignal.abort() }));
      expect((await rejection(listing)).code).toBe("Aborted");
    });
  });

  describe.concurrent("forceRelease", () => {
    test("releases the lock of any holder", async () => {
      const backend = await t.backend();
      const key = t.key();
      const held = await backend.acquire({ key, ttlMs: 60_000 });
      expect(await forceRelease(backend, { key })).toEqual({ ok: true });
      expect(await backend.isLocked({ key })).toBe(false);
      expect(await forceRelease(backend, { key })).toEqual({ ok: false });
      const next = await backend.acquire({ key, ttlMs: 60_000 });
      expect(next.fence > held.fence).toBe(true);
      expect((await held.extend(60_000)).ok).toBe(false);
      expect((await held.release()).ok).toBe(false);
      expect(await owns(backend, next.lockId)).toBe(true);
      await next.release();
    });

    test("returns { ok: false } for a key that is free or expired", async () => {
      const backend = await t.backend();
      expect(await forceRelease(backend, { key: t.key() })).toEqual({ ok: false });
      const key = t.key();
      await backend.acquire({ key, ttlMs: 1 });
      await untilFree(backend, key);
      expect(await forceRelease(backend, { key })).toEqual({ ok: false });
    });

    test("the holder is notified of the loss long before its ttl", async () => {
      const backend = await t.backend();
      const other = t.shared ? await t.another() : backend;
      const key = t.key();
      const ttlMs = 6_000;
      const seen = { onReleaseError: [] };
      const onReleaseError = (error) => seen.onReleaseError.push(error);
      const outcome = lock(
        backend,
        async ({ signal, isHeld, throwIfLost }) => {
          const takenAt = performance.now();
          expect(await forceRelease(other, { key })).toEqual({ ok: true });
          const reason = await aborted(signal);
          // The next heartbeat notices it. There are three in each ttl.
          expect(performance.now() - takenAt).toBeLessThan(ttlMs / 3 + NOISE_MS);
          expect(reason).toBeInstanceOf(LockError);
          expect(reason.code).toBe("LockLost");
          expect(isHeld()).toBe(false);
          expect(throwIfLost).toThrow(reason);
        },
        { key, ttlMs, autoExtend: true, throwIfLost: true, onReleaseError },
      );
      expect((await rejection(outcome)).code).toBe("LockLost");
      expect(seen.onReleaseError).toEqual([]);
    });

    test("a holder of the same backend is notified at once", async () => {
      const backend = await t.backend();
      const key = t.key();
      const held = await hold(backend, { key, ttlMs: 600_000 });
      await forceRelease(backend, { key });
      expect(held.isHeld()).toBe(false);
      expect((await aborted(held.signal)).code).toBe("LockLost");
    });

    test("wakes a waiter of this process at once", async () => {
      const backend = await t.backend();
      const key = t.key();
      await backend.acquire({ key, ttlMs: 600_000 });
      const waiting = lock(backend, () => "entered", { key, acquisition: ENDLESS });
      await turn();
      await forceRelease(backend, { key });
      expect(await waiting).toBe("entered");
    });

    test("the holder's heartbeat does not bring the lock back, nor touch the next one", async () => {
      const backend = await t.backend();
      const key = t.key();
      const lost = deferred();
      const held = await hold(backend, { key, ttlMs: 600, autoExtend: true });
      held.signal.addEventListener("abort", lost.resolve);
      await forceRelease(backend, { key });
      const next = await backend.acquire({ key, ttlMs: 60_000 });
      expect(next.ok).toBe(true);
      await lost.promise;
      expect((await backend.lookup({ key })).expiresAtMs).toBe(next.expiresAtMs);
      expect((await held.release()).ok).toBe(false);
      expect((await next.release()).ok).toBe(true);
    });

    test("wrong input and an aborted signal are refused, and no lock is released", async () => {
      const backend = await t.backend();
      const key = t.key();
      const held = await backend.acquire({ key, ttlMs: 60_000 });
      for (const options of [{ key: "" }, { key: 7 }, {}, null, undefined, { key, signal: {} }]) {
        expect((await rejection(forceRelease(backend, options))).code).toBe("InvalidArgument");
      }
      const refused = forceRelease(backend, { key, signal: AbortSignal.abort() });
      expect((await rejection(refused)).code).toBe("Aborted");
      expect((await held.release()).ok).toBe(true);
    });
  });

  describe.concurrent("diagnose", () => {
    test("returns findings with a verdict each, and leaves nothing in the store", async () => {
      const backend = await t.isolated();
      const findings = await diagnose(backend);
      for (const { name, value, verdict, advice, ...rest } of findings) {
        expect(name).toMatch(/^[a-z ]+$/);
        expect(value).toMatch(/\S/);
        expect(["ok", "warning", "error"]).toContain(verdict);
        if (verdict !== "ok") expect(advice).toMatch(/\S/);
        expect(rest).toEqual({});
      }
      expect(new Set(findings.map(({ name }) => name)).size).toBe(findings.length);
      expect(await all(listLocks(backend))).toEqual([]);
    });

    test("refuses wrong arguments and an aborted signal", async () => {
      const backend = await t.backend();
      const refused = diagnose(backend, { signal: AbortSignal.abort() });
      expect((await rejection(refused)).code).toBe("Aborted");
      for (const args of [[backend, { signal: {} }], [{}], [null], []]) {
        expect((await rejection(diagnose(...args))).code).toBe("InvalidArgument");
      }
    });
  });
}
