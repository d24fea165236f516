// Several holders of one key: semaphores, readers and writers.

import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import {
  forceRelease,
  getByKey,
  hold,
  listLocks,
  lock,
  owns,
  tryHold,
  tryLock,
} from "../fixtures/api.js";
import { untilFree } from "../fixtures/wait.js";
import { rejection } from "./setup.js";

const PATIENT = { retryDelayMs: 5, backoff: "fixed", timeoutMs: 30_000 };
const MINUTE = { ttlMs: 60_000 };
/** How long a waiting writer's mark lasts at most after it stopped waiting, and room for noise. */
const READERS_RETURN_MS = 3_000;

/** Runs `count` workers at once and returns the largest number that ran together, and their slots. */
async function crowd(backend, config, count, ms = 5) {
  const slots = new Set();
  let [running, most] = [0, 0];
  const work = async ({ slot }) => {
    expect(slots.has(slot)).toBe(false);
    slots.add(slot);
    most = Math.max(most, ++running);
    // The first workers stay until the others are there: a slow store needs a while to admit them.
    for (const end = Date.now() + 5_000; most < config.concurrency && Date.now() < end;) {
      await sleep(ms);
    }
    await sleep(ms);
    running -= 1;
    slots.delete(slot);
  };
  await Promise.all(Array.from({ length: count }, () => lock(backend, work, config)));
  return most;
}

/** Returns a test that releases, at its end, the locks that it passed to `scope`. */
function scoped(test) {
  return async () => {
    const held = [];
    const scope = (lock) => {
      if (lock !== null) held.push(lock);
      return lock;
    };
    try {
      await test(scope);
    } finally {
      await Promise.all(held.map((lock) => lock.release()));
    }
  };
}

export function sharing(t) {
  // A custom backend decides for itself whether it can share a key.
  if (!t.native) return;

  describe.concurrent("sharing a key", () => {
    test("says so in its capabilities, which compare as before", async () => {
      const { capabilities } = await t.backend();
      expect(capabilities.supportsSharing).toBe(true);
      expect(Object.keys(capabilities)).not.toContain("supportsSharing");
    });

    test("at most `concurrency` holders, each with a slot of its own", async () => {
      const backend = await t.backend();
      const config = { key: t.key(), concurrency: 3, acquisition: PATIENT };
      expect(await crowd(backend, config, 20)).toBe(3);
      expect(await backend.isLocked({ key: config.key })).toBe(false);
    });

    test("acquire: slots from 0, the smallest first, and fences that increase", async () => {
      const backend = await t.backend();
      const share = { key: t.key(), concurrency: 3, ...MINUTE };
      const [a, b, c] = [
        await backend.acquire(share),
        await backend.acquire(share),
        await backend.acquire(share),
      ];
      expect([a.slot, b.slot, c.slot]).toEqual([0, 1, 2]);
      expect([a.fence, b.fence, c.fence]).toEqual(
        [1, 2, 3].map((n) => String(n).padStart(15, "0")),
      );
      expect(new Set([a.lockId, b.lockId, c.lockId]).size).toBe(3);
      expect((await backend.acquire(share)).ok).toBe(false);
      expect(await b.release()).toEqual({ ok: true });
      const next = await backend.acquire(share);
      expect(next).toMatchObject({ slot: 1, fence: "000000000000004" });
      for (const held of [a, c, next]) expect(await held.release()).toEqual({ ok: true });
      const exclusive = await backend.acquire({ key: share.key, ...MINUTE });
      expect(exclusive.fence).toBe("000000000000005");
      expect(exclusive.slot).toBeUndefined();
      await exclusive.release();
    });

    test(
      "an exclusive lock and shared ones exclude each other, in both directions",
      scoped(async (scope) => {
        const backend = await t.backend();
        const key = t.key();
        for (const share of [{ mode: "shared" }, { concurrency: 2 }]) {
          const first = scope(await tryHold(backend, { key, ...share }));
          const second = scope(await tryHold(backend, { key, ...share }));
          expect([first.slot, second.slot]).toEqual([0, 1]);
          expect(await tryHold(backend, { key })).toBe(null);
          await first.release();
          expect(await tryHold(backend, { key, concurrency: 1 })).toBe(null);
          await second.release();
          const exclusive = scope(await tryHold(backend, { key }));
          expect(exclusive).not.toBe(null);
          expect(await tryHold(backend, { key, ...share })).toBe(null);
          await exclusive.release();
        }
      }),
    );

    test("readers are not limited, unless by a limit of their own", async () => {
      const backend = await t.backend();
      const key = t.key();
      const readers = await Promise.all(
        Array.from({ length: 25 }, () => tryHold(backend, { key, mode: "shared" })),
      );
      expect(readers.map(({ slot }) => slot).sort((a, b) => a - b)).toEqual(
        readers.map((_, index) => index),
      );
      expect(await tryHold(backend, { key, mode: "shared", concurrency: 25 })).toBe(null);
      const other = await tryHold(backend, { key, mode: "shared", concurrency: 26 });
      expect(other.slot).toBe(25);
      await Promise.all([...readers, other].map((held) => held.release()));
      expect(await backend.isLocked({ key })).toBe(false);
    });

    test(
      "the limit belongs to the attempt, so it can change while others hold",
      scoped(async (scope) => {
        const backend = await t.backend();
        const key = t.key();
        const held = [];
        for (let n = 0; n < 4; n++) held.push(await tryHold(backend, { key, concurrency: 4 }));
        for (const concurrency of [2, 3, 4]) {
          expect(await tryHold(backend, { key, concurrency })).toBe(null);
        }
        await held[3].release();
        expect(await tryHold(backend, { key, concurrency: 2 })).toBe(null);
        await held[0].release();
        await held[1].release();
        const next = scope(await tryHold(backend, { key, concurrency: 2 }));
        expect(next.slot).toBe(0);
        await held[2].release();
      }),
    );

    test("release and extend concern one holder only", async () => {
      const backend = await t.backend();
      const key = t.key();
      const share = { key, concurrency: 2 };
      const ttlMs = 2_500;
      const short = await backend.acquire({ ...share, ttlMs });
      const long = await backend.acquire({ ...share, ...MINUTE });
      expect(await owns(backend, short.lockId)).toBe(true);
      expect((await backend.extend({ lockId: long.lockId, ttlMs: 50_000 })).ok).toBe(true);
      expect((await backend.acquire({ ...share, ...MINUTE })).ok).toBe(false);
      // Its lease ends, and only its own.
      await sleep(ttlMs + t.toleranceMs + 100);
      expect(await backend.extend({ lockId: short.lockId, ttlMs: 60_000 })).toMatchObject({
        ok: false,
      });
      expect((await backend.release({ lockId: short.lockId })).ok).toBe(false);
      expect(await owns(backend, short.lockId)).toBe(false);
      expect(await owns(backend, long.lockId)).toBe(true);
      const next = await backend.acquire({ ...share, ...MINUTE });
      expect(next.slot).toBe(0);
      expect((await backend.release({ lockId: short.lockId })).ok).toBe(false);
      expect((await next.release()).ok).toBe(true);
      expect((await long.release()).ok).toBe(true);
      expect((await long.release()).ok).toBe(false);
      expect(await backend.isLocked({ key })).toBe(false);
    });

    test("holders that all expired leave the key free, for either kind", async () => {
      const backend = await t.backend();
      const key = t.key();
      await backend.acquire({ key, ttlMs: 1, mode: "shared" });
      await backend.acquire({ key, ttlMs: 1, mode: "shared" });
      await untilFree(backend, key);
      const exclusive = await backend.acquire({ key, ttlMs: 1 });
      expect(exclusive).toMatchObject({ ok: true, fence: "000000000000003" });
      await untilFree(backend, key);
      const shared = await backend.acquire({ key, ...MINUTE, concurrency: 2 });
      expect(shared).toMatchObject({ ok: true, slot: 0, fence: "000000000000004" });
      await shared.release();
    });

    test("lookup: the holder that expires last, and how many there are", async () => {
      const backend = await t.backend();
      const key = t.key();
      const first = await backend.acquire({ key, ttlMs: 80_000, mode: "shared" });
      const second = await backend.acquire({ key, ttlMs: 20_000, mode: "shared" });
      const { expiresAtMs, fence } = first;
      expect(await getByKey(backend, key)).toMatchObject({
        ...{ mode: "shared", slot: 0, holders: 2, expiresAtMs, fence },
      });
      expect(await backend.lookup({ lockId: second.lockId })).toMatchObject({
        ...{ mode: "shared", slot: 1, holders: 2, fence: second.fence },
      });
      await first.release();
      expect(await getByKey(backend, key)).toMatchObject({ slot: 1, holders: 1 });
      expect(await backend.lookup({ lockId: first.lockId })).toBe(null);
      await second.release();
      expect(await getByKey(backend, key)).toBe(null);
    });

    test("listLocks: one entry for each holder", async () => {
      const backend = await t.isolated();
      await backend.acquire({ key: "alone", ...MINUTE });
      for (let n = 0; n < 3; n++)
        await backend.acquire({ key: "shared", ...MINUTE, concurrency: 3 });
      await backend.acquire({ key: "expired", ttlMs: 1, mode: "shared" });
      await untilFree(backend, "expired");
      const found = [];
      for await (const { key, mode, slot } of listLocks(backend, { raw: true })) {
        found.push([key, mode, slot]);
      }
      expect(found.sort()).toEqual([
        ["alone", "exclusive", undefined],
        ["shared", "shared", 0],
        ["shared", "shared", 1],
        ["shared", "shared", 2],
      ]);
    });

    test(
      "forceRelease ends all holders",
      scoped(async (scope) => {
        const backend = await t.backend();
        const key = t.key();
        const a = scope(await hold(backend, { key, mode: "shared" }));
        const b = scope(await hold(backend, { key, mode: "shared" }));
        expect(await forceRelease(backend, { key })).toEqual({ ok: true });
        expect([a.isHeld(), b.isHeld()]).toEqual([false, false]);
        expect((await backend.extend({ lockId: a.lockId, ttlMs: 1000 })).ok).toBe(false);
        const next = scope(await tryHold(backend, { key }));
        expect(next.fence).toBe("000000000000003");
        expect(await forceRelease(backend, { key: t.key() })).toEqual({ ok: false });
      }),
    );

    test(
      "heartbeats keep each holder's own lease",
      scoped(async (scope) => {
        const backend = await t.backend();
        // A third of it is the time for a heartbeat on a busy machine.
        const ttlMs = 3_000;
        const config = { key: t.key(), concurrency: 2, ttlMs, autoExtend: true };
        const a = scope(await hold(backend, config));
        const b = scope(await hold(backend, config));
        await sleep(ttlMs + t.toleranceMs + 600);
        expect([a.isHeld(), b.isHeld()]).toEqual([true, true]);
        expect(await tryHold(backend, config)).toBe(null);
      }),
    );

    test("waiters of a full key get a slot as soon as one is free", async () => {
      const backend = await t.backend();
      const config = { key: t.key(), concurrency: 2, acquisition: { timeoutMs: 20_000 } };
      const held = [await hold(backend, config), await hold(backend, config)];
      const waiting = [hold(backend, config), hold(backend, config)];
      await sleep(30);
      await held[1].release();
      // On a slow store the second one may make its first attempt after the release.
      const first = await Promise.race(waiting);
      expect(first.slot).toBe(1);
      await held[0].release();
      const both = await Promise.all(waiting);
      expect(both.map(({ slot }) => slot).sort()).toEqual([0, 1]);
      await Promise.all(both.map((one) => one.release()));
    });

    test("readers that wait for a writer all get their turn when it ends", async () => {
      const backend = await t.backend();
      const key = t.key();
      const writer = await hold(backend, { key });
      const acquisition = { timeoutMs: 20_000 };
      const readers = Array.from({ length: 8 }, () =>
        hold(backend, { key, mode: "shared", acquisition }),
      );
      await sleep(30);
      await writer.release();
      const held = await Promise.all(readers);
      expect(new Set(held.map(({ slot }) => slot)).size).toBe(8);
      await Promise.all(held.map((one) => one.release()));
    });

    test(
      "an aborted or late wait leaves nothing behind",
      scoped(async (scope) => {
        const backend = await t.backend();
        const key = t.key();
        const reader = await hold(backend, { key, mode: "shared" });
        const aborter = new AbortController();
        const aborted = rejection(hold(backend, { key, signal: aborter.signal }));
        const late = rejection(hold(backend, { key, acquisition: { timeoutMs: 100 } }));
        await sleep(50);
        aborter.abort();
        expect((await aborted).code).toBe("Aborted");
        expect((await late).code).toBe("AcquisitionTimeout");
        // The writers are gone, so readers may come again.
        const next = scope(
          await hold(backend, {
            ...{ key, mode: "shared" },
            acquisition: { ...PATIENT, timeoutMs: READERS_RETURN_MS },
          }),
        );
        expect(next.slot).toBe(1);
        await reader.release();
      }),
    );

    test(
      "tryLock and acquire leave no mark",
      scoped(async (scope) => {
        const backend = await t.backend();
        const key = t.key();
        const first = scope(await tryHold(backend, { key, mode: "shared" }));
        expect(await tryLock(backend, () => {}, { key })).toEqual({ ok: false, reason: "locked" });
        expect((await backend.acquire({ key, ...MINUTE })).ok).toBe(false);
        const second = scope(await tryHold(backend, { key, mode: "shared" }));
        expect([first.slot, second.slot]).toEqual([0, 1]);
      }),
    );

    test(
      "a waiting writer keeps new readers out and gets its turn",
      scoped(async (scope) => {
        const backend = await t.backend();
        const key = t.key();
        const readers = [
          await tryHold(backend, { key, mode: "shared" }),
          await tryHold(backend, { key, mode: "shared" }),
        ];
        const writer = hold(backend, { key, acquisition: { timeoutMs: 30_000 } });
        let refused = null;
        for (const end = Date.now() + 5_000; Date.now() < end && refused === null; await sleep(5)) {
          const probe = await tryHold(backend, { key, mode: "shared" });
          if (probe === null) refused = true;
          else await probe.release();
        }
        expect(refused).toBe(true);
        await readers[0].release();
        expect(await tryHold(backend, { key, mode: "shared" })).toBe(null);
        await readers[1].release();
        const held = await writer;
        expect(held.slot).toBeUndefined();
        await held.release();
        const reader = scope(await tryHold(backend, { key, mode: "shared" }));
        expect(reader.slot).toBe(0);
      }),
    );

    test("what cannot be meant is refused before any I/O", async () => {
      const backend = await t.backend();
      const key = t.key();
      for (const config of [
        ...[0, -1, 1.5, 1001, NaN, Infinity, "5", null].map((concurrency) => ({ concurrency })),
        ...[{ mode: "read" }, { mode: 1 }, { mode: null }],
        { mode: "exclusive", concurrency: 2 },
      ]) {
        for (const call of [
          () => lock(backend, () => {}, { key, ...config }),
          () => backend.acquire({ key, ...MINUTE, ...config }),
        ]) {
          expect(await rejection(call())).toMatchObject({ code: "InvalidArgument" });
        }
      }
      const typo = await rejection(lock(backend, () => {}, { key, concurency: 2 }));
      expect(typo.message).toContain("concurrency");
    });
  });
}
