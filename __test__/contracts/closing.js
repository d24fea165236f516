// close() while locks are held: they keep their connection for a time, and no lock is left behind.

import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { LockError, hold, lead, lock } from "../fixtures/api.js";
import { ENDING_FORMS, FORMS } from "../fixtures/forms.js";
import { NOISE_MS, aborted, deferred } from "../fixtures/wait.js";
import { rejection } from "./setup.js";

const never = () => {
  throw new Error("the function must not run");
};

/** The error of calls on a closed backend. */
function expectClosed(error) {
  expect(error).toBeInstanceOf(LockError);
  expect(error.code).toBe("InvalidArgument");
  expect(error.message).toContain("closed");
}

export function closing(t) {
  // A custom backend closes its locks itself.
  if (!t.native) return;

  // The tests mostly wait for the clock, so together they take as long as the longest of them.
  describe.concurrent("close while locks are held", () => {
    /** Returns a backend to close, and a function that asks another backend, if possible, for its locks. */
    const closing = async () => {
      const [backend, other] = t.shared
        ? [await t.another(), await t.backend()]
        : [await t.isolated(), undefined];
      const key = t.key();
      // Connect first: on a busy machine that can take longer than these locks last.
      await backend.isLocked({ key });
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
        const ttlMs = 3_000;
        const config = { key, ttlMs, autoExtend: true, throwIfLost: true };
        let closed = false;
        let closes;
        const outcome = await FORMS[form](backend, config, async ({ isHeld, signal, extend }) => {
          closes = backend.close().then(() => (closed = true));
          expectClosed(await rejection(backend.acquire({ key: "another", ttlMs: 1000 })));
          expectClosed(await rejection(lock(backend, never, { key: "another" })));
          // Waits for longer than the lock lives without its heartbeat.
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

    test("lead() keeps its lock too", async () => {
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
          // A close leaves nothing locked.
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

    test("a lead() whose lock was given up does not rejoin the election", async () => {
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

    test("with throwIfLost a call whose lock was given up rejects", async () => {
      const { backend, key } = await closing();
      const config = { key, ttlMs: 600_000, throwIfLost: true };
      const outcome = lock(backend, () => backend.close({ timeoutMs: 0 }), config);
      expect((await rejection(outcome)).code).toBe("LockLost");
    });

    test("timeoutMs 0: many locks are given up at once, including those without a heartbeat", async () => {
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

    test("minHoldMs does not delay the close", async () => {
      const { backend, key } = await closing();
      await lock(backend, () => {}, { key, minHoldMs: 60_000 });
      const closedAt = performance.now();
      await backend.close();
      expect(performance.now() - closedAt).toBeLessThan(NOISE_MS);
    });

    test("a second close waits for the first", async () => {
      const { backend, key } = await closing();
      const [entered, gate] = [deferred(), deferred()];
      const running = lock(backend, () => (entered.resolve(), gate.promise), { key });
      await entered.promise;
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

    test("close waits for a release in flight", async () => {
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
