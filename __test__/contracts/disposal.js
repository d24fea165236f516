// Handles of a real backend. Tests that need a failing or slow release are in handles.test.js.

import { describe, expect, test } from "vitest";
import { acquireHandle } from "../fixtures/api.js";

/** Returns a wrapper of `backend` that counts releases. */
function counted(backend) {
  const view = { ...backend, releases: 0 };
  view.release = (options) => {
    view.releases += 1;
    return backend.release(options);
  };
  return view;
}

export function disposal(t) {
  describe("disposal", () => {
    test("the end of the scope releases", async () => {
      const backend = await t.backend();
      const key = t.key();
      const lock = await backend.acquire({ key, ttlMs: 60_000 });
      expect(await lock[Symbol.asyncDispose]()).toBeUndefined();
      expect(await backend.isLocked({ key })).toBe(false);
    });

    test("a refused acquire disposes to nothing and its methods do nothing", async () => {
      const backend = await t.backend();
      const key = t.key();
      const holder = await backend.acquire({ key, ttlMs: 60_000 });
      const refused = await backend.acquire({ key, ttlMs: 60_000 });
      expect((await refused.release()).ok).toBe(false);
      expect((await refused.extend(60_000)).ok).toBe(false);
      expect(await refused[Symbol.asyncDispose]()).toBeUndefined();
      expect((await backend.lookup({ key })).expiresAtMs).toBe(holder.expiresAtMs);
      await holder.release();
    });

    test("a result may be destructured", async () => {
      const backend = await t.backend();
      const key = t.key();
      const { ok, extend, release } = await backend.acquire({ key, ttlMs: 60_000 });
      expect(ok).toBe(true);
      expect((await extend(90_000)).ok).toBe(true);
      expect((await release()).ok).toBe(true);
      expect(await backend.isLocked({ key })).toBe(false);
    });

    test("a result may be spread", async () => {
      const backend = await t.backend();
      const key = t.key();
      const copy = { ...(await backend.acquire({ key, ttlMs: 60_000 })), note: "mine" };
      expect((await copy.extend(90_000)).ok).toBe(true);
      await copy[Symbol.asyncDispose]();
      expect(await backend.isLocked({ key })).toBe(false);
    });

    test("a copy and its original are one handle", async () => {
      const backend = await t.backend();
      const lock = await backend.acquire({ key: t.key(), ttlMs: 60_000 });
      const copy = { ...lock };
      expect((await copy.release()).ok).toBe(true);
      expect((await lock.release()).ok).toBe(false);
    });

    test("a second release is refused, even while the first is in flight", async () => {
      const backend = await t.backend();
      const lock = await backend.acquire({ key: t.key(), ttlMs: 60_000 });
      const both = await Promise.all([lock.release(), lock.release()]);
      expect(both.map((result) => result.ok).sort()).toEqual([false, true]);
      expect((await lock.release()).ok).toBe(false);
    });

    test("dispose after a release does not release the next holder's lock", async () => {
      const backend = await t.backend();
      const key = t.key();
      const lock = await backend.acquire({ key, ttlMs: 60_000 });
      await lock.release();
      const next = await backend.acquire({ key, ttlMs: 60_000 });
      await lock[Symbol.asyncDispose]();
      expect((await backend.lookup({ key })).fence).toBe(next.fence);
      await next[Symbol.asyncDispose]();
      await next[Symbol.asyncDispose]();
      expect(await backend.isLocked({ key })).toBe(false);
    });

    test("dispose of a lock that was released elsewhere reports nothing", async () => {
      const failures = [];
      const backend = await t.another({ onReleaseError: (error) => failures.push(error) });
      const lock = await backend.acquire({ key: t.key(), ttlMs: 60_000 });
      await backend.release({ lockId: lock.lockId });
      await lock[Symbol.asyncDispose]();
      expect(failures).toEqual([]);
    });

    test("extend of a handle works any number of times", async () => {
      const backend = await t.backend();
      const lock = await backend.acquire({ key: t.key(), ttlMs: 60_000 });
      for (const ttlMs of [70_000, 80_000, 90_000])
        expect((await lock.extend(ttlMs)).ok).toBe(true);
      await lock.release();
      expect((await lock.extend(60_000)).ok).toBe(false);
    });

    test("acquireHandle returns the same handle, from this and from a wrapped backend", async () => {
      const backend = await t.backend();
      const wrapped = counted(backend);
      for (const each of [backend, wrapped]) {
        const key = t.key();
        const lock = await acquireHandle(each, { key, ttlMs: 60_000 });
        expect(lock.ok).toBe(true);
        expect((await acquireHandle(each, { key, ttlMs: 60_000 })).ok).toBe(false);
        await lock[Symbol.asyncDispose]();
        expect(await backend.isLocked({ key })).toBe(false);
      }
    });
  });
}
