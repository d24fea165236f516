// Several keys at once: all of them, or none.

import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test, vi } from "vitest";
import { hold, lock, tryHold, tryLock } from "../fixtures/api.js";
import { rejection } from "./setup.js";

const PATIENT = { retryDelayMs: 5, backoff: "fixed", timeoutMs: 60_000 };
const ENDLESS = { retryDelayMs: 300_000, maxDelayMs: 300_000, backoff: "fixed", jitter: "none" };
const MINUTE = { ttlMs: 60_000 };
const FIRST = "000000000000001";

export function several(t) {
  describe.concurrent("several keys", () => {
    const ownKeys = (...names) => {
      const prefix = t.key();
      return names.map((name) => `${prefix}:${name}`);
    };
    const locked = async (backend, keys) => {
      const found = await Promise.all(keys.map((key) => backend.isLocked({ key })));
      return keys.filter((_, index) => found[index]).map((key) => key.slice(-1));
    };

    const untilLocked = (backend, keys, expected) =>
      vi.waitFor(async () => expect(await locked(backend, keys)).toEqual(expected), 10_000);

    test("all are held while they are used, and free afterwards", async () => {
      const backend = await t.backend();
      const [a, b, c] = ownKeys("a", "b", "c");
      const result = await lock(
        backend,
        async (held) => {
          expect(await locked(backend, [a, b, c])).toEqual(["a", "b", "c"]);
          expect(Object.keys(held.fences).sort()).toEqual([a, b, c]);
          expect("fence" in held || "lockId" in held || "slots" in held).toBe(false);
          expect([held.isHeld(), held.isHeld(1e6)]).toEqual([true, false]);
          expect(held.signal.aborted).toBe(false);
          expect((await held.extend(50_000)).ok).toBe(true);
          expect(held.isHeld(45_000)).toBe(true);
          return "done";
        },
        // Twice the same key, in any order.
        { keys: [c, a, b, a], ...MINUTE },
      );
      expect(result).toBe("done");
      expect(await locked(backend, [a, b, c])).toEqual([]);
    });

    test("a key counts once, however it is written; fences go by what was written", async () => {
      const backend = await t.backend();
      const key = t.key();
      const [composed, decomposed] = [`${key}é`, `${key}e\u0301`];
      const held = await hold(backend, { keys: [composed, decomposed, `${key}:__proto__`] });
      expect(held.fences[composed]).toBe(held.fences[decomposed]);
      expect(Object.keys(held.fences)).toHaveLength(3);
      await held.release();
    });

    test("one that is busy: nothing is left of the others", async () => {
      const backend = await t.backend();
      const keys = ownKeys("a", "b", "c");
      for (const busy of keys) {
        const other = await hold(backend, { key: busy });
        expect(await tryHold(backend, { keys })).toBe(null);
        expect(await tryLock(backend, () => {}, { keys })).toEqual({ ok: false, reason: "locked" });
        expect(await locked(backend, keys)).toEqual([busy.slice(-1)]);
        await other.release();
      }
    });

    test("a wait holds what comes before the busy key, and nothing behind it", async () => {
      const backend = await t.backend();
      const keys = ownKeys("a", "b", "c");
      const other = await hold(backend, { key: keys[1] });
      const waiting = hold(backend, { keys, ttlMs: 1_200, acquisition: PATIENT });
      await untilLocked(backend, keys, ["a", "b"]);
      // Longer than the TTL: what is held is kept alive.
      await sleep(1_200 + t.toleranceMs + 300);
      expect(await locked(backend, keys)).toEqual(["a", "b"]);
      await other.release();
      const held = await waiting;
      expect(held.isHeld(600)).toBe(true);
      expect(await locked(backend, keys)).toEqual(["a", "b", "c"]);
      await held.release();
      expect(await locked(backend, keys)).toEqual([]);
    });

    test("an aborted or late wait leaves nothing behind", async () => {
      const backend = await t.backend();
      const keys = ownKeys("a", "b", "c");
      const other = await hold(backend, { key: keys[2] });
      const aborter = new AbortController();
      const waits = [
        hold(backend, { keys, signal: aborter.signal, acquisition: ENDLESS }),
        hold(backend, { keys, acquisition: { ...ENDLESS, timeoutMs: 250 } }),
      ];
      const errors = waits.map(rejection);
      await sleep(100);
      aborter.abort();
      expect((await errors[0]).code).toBe("Aborted");
      const late = await errors[1];
      expect(late.code).toBe("AcquisitionTimeout");
      expect(late.context.keys).toEqual(keys);
      await untilLocked(backend, keys, ["c"]);
      await other.release();
    });

    test("losing one loses all", async () => {
      const backend = await t.backend();
      const keys = ownKeys("a", "b");
      const held = await hold(backend, { keys, ttlMs: 900, autoExtend: true });
      const aborted = new Promise((resolve) => (held.signal.onabort = resolve));
      await backend.release({ lockId: held.lockIds[keys[1]] });
      await aborted;
      expect(held.signal.reason.code).toBe("LockLost");
      expect(held.isHeld()).toBe(false);
      expect(held.throwIfLost).toThrow(expect.objectContaining({ code: "LockLost" }));
      await held.release();
      expect(await locked(backend, keys)).toEqual([]);
    });

    test("callers with any keys in any order never block each other for good", async () => {
      const backend = await t.backend();
      const keys = ownKeys("a", "b", "c", "d", "e", "f");
      const inside = new Set();
      const worker = async (seed) => {
        for (let round = 0; round < 12; round++) {
          const mine = keys.filter((_, index) => (seed * 7 + round * 13) & (1 << index));
          if (seed % 2) mine.reverse();
          if (mine.length === 0) continue;
          await lock(
            backend,
            async () => {
              for (const key of mine) {
                expect(inside.has(key)).toBe(false);
                inside.add(key);
              }
              await sleep(1);
              for (const key of mine) inside.delete(key);
            },
            { keys: mine, acquisition: PATIENT },
          );
        }
      };
      await Promise.all(Array.from({ length: 6 }, (_, seed) => worker(seed)));
      expect(await locked(backend, keys)).toEqual([]);
    });

    test("what cannot be meant is refused before any I/O", async () => {
      const backend = await t.backend();
      const many = Array.from({ length: 33 }, (_, index) => `k${index}`);
      for (const config of [
        ...[[], "a", {}, null, [1], ["a", ""], ["a", "k".repeat(513)], ["\ud800"], many].map(
          (keys) => ({ keys }),
        ),
        { key: "a", keys: ["b"] },
      ]) {
        const error = await rejection(lock(backend, () => {}, config));
        expect(error).toMatchObject({ code: "InvalidArgument" });
      }
      const repeated = [...many, ...many].slice(0, 32).concat("k0", "k1");
      await lock(backend, () => {}, {
        keys: repeated.map((key) => `${t.key()}${key}`).slice(0, 32),
      });
    });

    if (!t.native) return;

    test("shared: each key has a slot, and writers of one of them are kept out", async () => {
      const backend = await t.backend();
      const [a, b] = ownKeys("a", "b");
      const first = await hold(backend, { keys: [a, b], concurrency: 2 });
      const second = await hold(backend, { keys: [b, a], mode: "shared" });
      expect([first.slots, second.slots]).toEqual([
        { [a]: 0, [b]: 0 },
        { [a]: 1, [b]: 1 },
      ]);
      expect(await tryHold(backend, { keys: [b] })).toBe(null);
      expect(await tryHold(backend, { keys: [a, b], concurrency: 2 })).toBe(null);
      await Promise.all([first.release(), second.release()]);
      const alone = await tryHold(backend, { keys: [b] });
      expect(alone.fences).toEqual({ [b]: "000000000000003" });
      await alone.release();
    });
  });

  test("fences of keys that nobody used begin with the first", async () => {
    const backend = await t.isolated();
    const held = await hold(backend, { keys: ["x", "y"] });
    expect(held.fences).toEqual({ x: FIRST, y: FIRST });
    await held.release();
  });
}
