import { describe, expect, test } from "vitest";
import { LockError, generateLockId, hold, lead, lock, tryHold, tryLock } from "../fixtures/api.js";
import { FORMS, WAITING_FORMS } from "../fixtures/forms.js";
import { NOISE_MS, turn } from "../fixtures/wait.js";
import { rejection } from "./setup.js";

const never = () => {
  throw new Error("the function must not run");
};

export function close(t) {
  describe("close", () => {
    test("an unused backend can be closed", async () => {
      const backend = await t.isolated();
      expect(await backend.close()).toBeUndefined();
    });

    test("a backend can be closed twice, at once or one after the other", async () => {
      const backend = await t.isolated();
      await backend.isLocked({ key: "k" });
      await Promise.all([backend.close(), backend.close()]);
      await backend.close();
      await backend[Symbol.asyncDispose]();
    });

    test("after close, every operation rejects", async () => {
      const backend = await t.isolated();
      const lockId = generateLockId();
      await backend.close();
      for (const call of [
        backend.acquire({ key: "k", ttlMs: 1000 }),
        backend.release({ lockId }),
        backend.extend({ lockId, ttlMs: 1000 }),
        backend.isLocked({ key: "k" }),
        backend.lookup({ key: "k" }),
        backend.lookup({ lockId }),
        lock(backend, never, { key: "k" }),
        tryLock(backend, never, { key: "k" }),
        hold(backend, { key: "k" }),
        tryHold(backend, { key: "k" }),
        lead(backend, never, { key: "k" }),
      ]) {
        const error = await rejection(call);
        expect(error).toBeInstanceOf(LockError);
        expect(error.message).toContain("closed");
      }
    });

    test("acquires in flight are granted, or reject because the backend is closed and leave no lock behind", async () => {
      const backend = t.shared ? await t.another() : await t.isolated();
      const keys = Array.from({ length: 20 }, () => t.key());
      const pending = keys.map((key) => backend.acquire({ key, ttlMs: 60_000 }));
      await backend.close();
      const outcomes = await Promise.allSettled(pending);
      for (const [index, { reason, value }] of outcomes.entries()) {
        if (value) expect(value.ok).toBe(true);
        else expect(reason.message).toContain("closed");
        if (t.shared) {
          const key = keys[index];
          expect(await (await t.backend()).isLocked({ key })).toBe(value !== undefined);
        }
      }
    });

    test("await using closes", async () => {
      const backend = await t.isolated();
      await backend[Symbol.asyncDispose]();
      expect((await rejection(backend.isLocked({ key: "k" }))).message).toContain("closed");
    });

    test.each(WAITING_FORMS)("a %s() that waits rejects", async (form) => {
      const backend = await t.isolated();
      await backend.acquire({ key: "k", ttlMs: 600_000 });
      // Over a custom backend, a wait learns of the close only from its next attempt.
      const acquisition = { retryDelayMs: t.native ? 300_000 : 20, backoff: "fixed" };
      const waiting = rejection(FORMS[form](backend, { key: "k", acquisition }, never));
      for (let i = 0; i < 10; i++) await turn();
      const closedAt = performance.now();
      await backend.close();
      const error = await waiting;
      expect(performance.now() - closedAt).toBeLessThan(NOISE_MS);
      expect(error).toBeInstanceOf(LockError);
      expect(error.message).toContain("closed");
    });
  });
}
