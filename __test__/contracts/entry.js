// A function is never entered with a lock that is not surely held: a lock that came too late is given
// back, and the wait goes on.

import { describe, expect, test } from "vitest";
import { lock, lead, tryLock, withTelemetry } from "../fixtures/api.js";
import { block, untilFree } from "../fixtures/wait.js";
import { rejection } from "./setup.js";

const TTL_MS = 250;
const ACQUISITION = { retryDelayMs: 5, maxRetries: 1_000_000, timeoutMs: 20_000 };
const BLOCK_MS = TTL_MS + 100;

export function entry(t) {
  describe("entering the function", () => {
    /** Blocks the thread while the answer is on its way, and returns what the function then saw. */
    const enterLate = (form, backend, config) => {
      const entered = form(
        backend,
        ({ isHeld, signal, fence }) => [isHeld(), signal.aborted, fence],
        {
          ttlMs: TTL_MS,
          acquisition: ACQUISITION,
          ...config,
        },
      );
      block(BLOCK_MS);
      return entered;
    };

    test.each([
      ["lock", lock],
      ["lead", lead],
    ])("%s: the thread is busy between the grant and the function", async (_, form) => {
      const backend = await t.backend();
      const key = t.key();
      const [held, aborted] = await enterLate(form, backend, { key });
      expect(held).toBe(true);
      expect(aborted).toBe(false);
      await untilFree(backend, key);
    });

    test("the same with a heartbeat and with events", async () => {
      const backend = await t.backend();
      for (const observed of [backend, withTelemetry(backend, { onEvent: () => {} })]) {
        for (const autoExtend of [false, true]) {
          const key = t.key();
          const [held, aborted] = await enterLate(lock, observed, { key, autoExtend });
          expect(held).toBe(true);
          expect(aborted).toBe(false);
          await untilFree(backend, key);
        }
      }
    });

    test("a single attempt that came too late is over, or is made again", async () => {
      const backend = await t.backend();
      const key = t.key();
      const result = await enterLate(tryLock, backend, { key });
      expect(result).toEqual(
        result.ok
          ? { ok: true, value: [true, false, expect.any(String)] }
          : { ok: false, reason: "locked" },
      );
      await untilFree(backend, key);
    });

    test("several grants arrive together, and the first function keeps the thread", async () => {
      const backend = await t.backend();
      for (const observed of [backend, withTelemetry(backend, { onEvent: () => {} })]) {
        let blocked = false;
        const keys = Array.from({ length: 5 }, () => t.key());
        const seen = await Promise.all(
          keys.map((key) =>
            lock(
              observed,
              ({ isHeld, signal }) => {
                const atEntry = isHeld() && !signal.aborted;
                if (!blocked) block(BLOCK_MS);
                blocked = true;
                return atEntry;
              },
              { key, ttlMs: TTL_MS, acquisition: ACQUISITION },
            ),
          ),
        );
        expect(seen).toEqual(keys.map(() => true));
        for (const key of keys) await untilFree(backend, key);
      }
    });

    test("an observer that keeps the thread is no exception", async () => {
      let blocked = false;
      const backend = withTelemetry(await t.backend(), {
        onEvent: () => {
          if (!blocked) block(BLOCK_MS);
          blocked = true;
        },
      });
      const config = { key: t.key(), ttlMs: TTL_MS, acquisition: ACQUISITION };
      expect(await lock(backend, ({ isHeld }) => isHeld(), config)).toBe(true);
    });

    test("the wait goes on within its limits: a wall that passed meanwhile is told", async () => {
      const backend = await t.backend();
      const key = t.key();
      const holder = await backend.acquire({ key, ttlMs: 600_000 });
      const acquisition = { ...ACQUISITION, timeoutMs: TTL_MS };
      const waiting = rejection(lock(backend, () => "entered", { key, acquisition }));
      block(BLOCK_MS);
      expect((await waiting).code).toBe("AcquisitionTimeout");
      await holder.release();
    });

    test("a caller that was cancelled meanwhile does not get in", async () => {
      const backend = await t.backend();
      const key = t.key();
      const controller = new AbortController();
      let entered = false;
      const config = { key, ttlMs: TTL_MS, signal: controller.signal };
      const waiting = lock(backend, () => (entered = true), config);
      // Where the answer is there at once, the function is too.
      if (!entered) {
        block(BLOCK_MS);
        controller.abort();
        expect((await rejection(waiting)).code).toBe("Aborted");
        expect(entered).toBe(false);
      }
      await untilFree(backend, key);
    });
  });
}
