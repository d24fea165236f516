import { describe, expect, test } from "vitest";
import { LockError, generateLockId, lock } from "../fixtures/api.js";
import { turn } from "../fixtures/wait.js";
import { rejection } from "./setup.js";

export function close(t) {
  describe("close", () => {
    test("an unused backend closes", async () => {
      const backend = await t.isolated();
      expect(await backend.close()).toBeUndefined();
    });

    test("twice, at once and one after the other, is fine", async () => {
      const backend = await t.isolated();
      await backend.isLocked({ key: "k" });
      await Promise.all([backend.close(), backend.close()]);
      await backend.close();
      await backend[Symbol.asyncDispose]();
    });

    test("afterwards every operation rejects", async () => {
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
        lock(backend, () => {}, { key: "k" }),
      ]) {
        const error = await rejection(call);
        expect(error).toBeInstanceOf(LockError);
        expect(error.message).toContain("closed");
      }
    });

    test("operations under way end, one way or the other", async () => {
      const backend = await t.isolated();
      const pending = Array.from({ length: 20 }, (_, index) =>
        backend.acquire({ key: `k${index}`, ttlMs: 60_000 }),
      );
      await backend.close();
      for (const outcome of await Promise.allSettled(pending)) {
        if (outcome.status === "rejected") expect(outcome.reason).toBeInstanceOf(LockError);
        else expect(outcome.value.ok).toBe(true);
      }
    });

    test("a lock() that waits is told", async () => {
      const backend = await t.isolated();
      await backend.acquire({ key: "k", ttlMs: 600_000 });
      // Over a backend of somebody else it can only learn of it by its next attempt.
      const waiting = lock(backend, () => {}, {
        key: "k",
        acquisition: { timeoutMs: 600_000, retryDelayMs: t.native ? 300_000 : 20 },
      });
      const failed = rejection(waiting);
      await turn();
      await backend.close();
      // What it says depends on whether an attempt was under way.
      expect(await failed).toBeInstanceOf(LockError);
    });

    test("await using closes", async () => {
      const backend = await t.isolated();
      await backend[Symbol.asyncDispose]();
      expect((await rejection(backend.isLocked({ key: "k" }))).message).toContain("closed");
    });
  });
}
