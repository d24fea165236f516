import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { LockError, generateLockId, hold, lead, lock, tryHold, tryLock } from "../fixtures/api.js";
import { ENDING_FORMS, FORMS, WAITING_FORMS } from "../fixtures/forms.js";
import { NOISE_MS, aborted, deferred, turn } from "../fixtures/wait.js";
import { rejection } from "./setup.js";

const never = () => {
  throw new Error("the function must not run");
};

/** What a call says that the backend is closed for. */
function expectClosed(error) {
  expect(error).toBeInstanceOf(LockError);
  expect(error.code).toBe("InvalidArgument");
  expect(error.message).toContain("closed");
}

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

    test("operations under way end, and each acquire is granted or says that it is closed", async () => {
      const backend = await t.isolated();
      const pending = Array.from({ length: 20 }, (_, index) =>
        backend.acquire({ key: `k${index}`, ttlMs: 60_000 }),
      );
      await backend.close();
      for (const outcome of await Promise.allSettled(pending)) {
        if (outcome.status === "rejected") expect(outcome.reason.message).toContain("closed");
        else expect(outcome.value.ok).toBe(true);
      }
    });

    test("await using closes", async () => {
      const backend = await t.isolated();
      await backend[Symbol.asyncDispose]();
      expect((await rejection(backend.isLocked({ key: "k" }))).message).toContain("closed");
    });

    test.each(WAITING_FORMS)("a %s() that waits is told", async (form) => {
      const backend = await t.isolated();
      await backend.acquire({ key: "k", ttlMs: 600_000 });
      // Over a backend of somebody else it can only learn of it by its next attempt.
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

  // The locks of somebody else's backend are his own to close.
  if (!t.native) return;

  // Each test mostly waits for the clock: together they take as long as the longest of them.
  describe.concurrent("close while locks are held", () => {
    /** A backend to close, and what another one sees of its locks, where there can be another. */
    const closing = async () => {
      const [backend, other] = t.shared
        ? [await t.another(), await t.backend()]
        : [await t.isolated(), undefined];
      const key = t.key();
      const isLocked = () => other?.isLocked({ key });
      const expectLocked = async (locked) => {
        if (other) expect(await isLocked()).toBe(locked);
      };
      return { backend, key, expectLocked };
    };

    test.each(ENDING_FORMS)(
      "%s: the lock is kept until it is released, and works as before",
      async (form) => {
        const { backend, key, expectLocked } = await closing();
        const ttlMs = 1_200;
        const config = { key, ttlMs, autoExtend: true, throwIfLost: true };
        let closed = false;
        let closes;
        const outcome = await FORMS[form](backend, config, async ({ isHeld, signal, extend }) => {
          closes = backend.close().then(() => (closed = true));
          expectClosed(await rejection(backend.acquire({ key: "another", ttlMs: 1000 })));
          expectClosed(await rejection(lock(backend, never, { key: "another" })));
          // Longer than the lock lives without its heartbeat.
          await sleep(ttlMs + t.toleranceMs + 200);
          expect(isHeld()).toBe(true);
          expect(signal.aborted).toBe(false);
          expect((await extend()).ok).toBe(true);
          expect(closed).toBe(false);
          await expectLocked(true);
          return "done";
        });
        expect(outcome).toBe("done");
        await expectLocked(false);
        const releasedAt = performance.now();
        await closes;
        expect(performance.now() - releasedAt).toBeLessThan(NOISE_MS);
      },
    );

    test("a lead is kept too", async () => {
      const { backend, key, expectLocked } = await closing();
      let closes;
      const outcome = await lead(
        backend,
        async ({ isHeld }) => {
          closes = backend.close();
          await sleep(200);
          expect(isHeld()).toBe(true);
          return "resigned";
        },
        { key },
      );
      expect(outcome).toBe("resigned");
      await expectLocked(false);
      await closes;
    });

    test.each(ENDING_FORMS)(
      "%s: after timeoutMs the lock is given up and released",
      async (form) => {
        const { backend, key, expectLocked } = await closing();
        const failures = [];
        const onReleaseError = (error) => failures.push(error);
        const config = { key, ttlMs: 600_000, autoExtend: true, onReleaseError };
        await FORMS[form](backend, config, async ({ signal, isHeld, throwIfLost }) => {
          const closedAt = performance.now();
          await backend.close({ timeoutMs: 500 });
          const took = performance.now() - closedAt;
          expect(took).toBeGreaterThanOrEqual(490);
          expect(took).toBeLessThan(500 + NOISE_MS);
          // Nothing is left locked by a close.
          await expectLocked(false);
          const reason = await aborted(signal);
          expect(reason).toBeInstanceOf(LockError);
          expect(reason.code).toBe("LockLost");
          expect(isHeld()).toBe(false);
          expect(throwIfLost).toThrow(expect.objectContaining({ code: "LockLost" }));
        });
        expect(failures).toEqual([]);
      },
    );

    test("a lead that is given up is not stood for again", async () => {
      const { backend, key, expectLocked } = await closing();
      let terms = 0;
      const leading = lead(
        backend,
        async ({ signal }) => {
          terms += 1;
          await backend.close({ timeoutMs: 100 });
          await aborted(signal);
        },
        { key, ttlMs: 600_000 },
      );
      expectClosed(await rejection(leading));
      expect(terms).toBe(1);
      await expectLocked(false);
    });

    test("with throwIfLost what was given up rejects", async () => {
      const { backend, key } = await closing();
      const config = { key, ttlMs: 600_000, throwIfLost: true };
      const outcome = lock(backend, () => backend.close({ timeoutMs: 0 }), config);
      expect((await rejection(outcome)).code).toBe("LockLost");
    });

    test("timeoutMs 0: many locks are given up at once, also those without a heartbeat", async () => {
      const { backend, key, expectLocked } = await closing();
      const keys = [key, ...Array.from({ length: 30 }, () => t.key())];
      const held = await Promise.all(
        keys.map((each) => hold(backend, { key: each, ttlMs: 600_000 })),
      );
      await backend.close({ timeoutMs: 0 });
      await expectLocked(false);
      for (const each of held) {
        expect(each.isHeld()).toBe(false);
        expect(await each.release()).toEqual({ ok: false });
      }
    });

    test("minHoldMs is no reason to stay", async () => {
      const { backend, key } = await closing();
      await lock(backend, () => {}, { key, minHoldMs: 60_000 });
      const closedAt = performance.now();
      await backend.close();
      expect(performance.now() - closedAt).toBeLessThan(NOISE_MS);
    });

    test("a second close waits for the first", async () => {
      const { backend, key } = await closing();
      const gate = deferred();
      const running = lock(backend, () => gate.promise, { key });
      await turn();
      const order = [];
      const both = [backend.close(), backend.close({ timeoutMs: 0 }), backend.close()].map((call) =>
        call.then(() => order.push("closed")),
      );
      await sleep(300);
      order.push("released");
      gate.resolve();
      await running;
      await Promise.all(both);
      expect(order).toEqual(["released", "closed", "closed", "closed"]);
    });

    test("a release that is under way is waited for", async () => {
      const { backend, key, expectLocked } = await closing();
      const held = await hold(backend, { key, ttlMs: 600_000 });
      const released = held.release();
      await backend.close();
      await expectLocked(false);
      expect(await released).toEqual({ ok: true });
    });

    test("a wrong timeoutMs is refused, and the backend stays open", async () => {
      const { backend, key } = await closing();
      for (const timeoutMs of [-1, NaN, "1000", 1n]) {
        expect((await rejection(backend.close({ timeoutMs }))).code).toBe("InvalidArgument");
      }
      expect(await lock(backend, () => "open", { key })).toBe("open");
    });
  });
}
