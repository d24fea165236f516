// A function is never called with a lock that is not certainly held: a lock that came too late is
// released, and the wait continues.

import { describe, expect, test } from "vitest";
import { lock, lead, tryLock, withTelemetry } from "../fixtures/api.js";
import { block, untilFree } from "../fixtures/wait.js";
import { rejection } from "./setup.js";

const TTL_MS = 250;
const ACQUISITION = { retryDelayMs: 5, maxRetries: 1_000_000, timeoutMs: 20_000 };
const BLOCK_MS = TTL_MS + 100;

export function entry(t) {
  describe("entering the function", () => {
    /** Blocks the thread while the answer is in flight. Returns what the function then saw. */
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

    test("a single attempt whose grant came too late is refused, or made again", async () => {
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

    test("several grants arrive together, and the first function blocks the thread", async () => {
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

    test("a grant that came too late because an observer blocked the thread counts as late too", async () => {
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

    test("the wait continues within its limits, and rejects if its time is over", async () => {
      const backend = await t.backend();
      const key = t.key();
      const holder = await backend.acquire({ key, ttlMs: 600_000 });
      const acquisition = { ...ACQUISITION, timeoutMs: TTL_MS };
      const waiting = rejection(lock(backend, () => "entered", { key, acquisition }));
      block(BLOCK_MS);
      expect((await waiting).code).toBe("AcquisitionTimeout");
      await holder.release();
    });

    test("the function of a caller that was cancelled in the meantime is not called", async () => {
      const backend = await t.backend();
      const key = t.key();
      const controller = new AbortController();
      let entered = false;
      const config = { key, ttlMs: TTL_MS, signal: controller.signal };
      const waiting = lock(backend, () => (entered = true), config);
      // If the answer comes at once, the function is called at once.
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
