// lock(), tryLock(), hold(), tryHold() and lead() use one engine, so the same tests apply to all of them.

import { getEventListeners } from "node:events";
import { describe, expect, test } from "vitest";
import { LockError, hold, owns, tryHold, tryLock } from "../fixtures/api.js";
import { ALL_FORMS, FORMS, NOT_HAD, TRYING_FORMS, WAITING_FORMS } from "../fixtures/forms.js";
import { NOISE_MS, turn } from "../fixtures/wait.js";
import { rejection } from "./setup.js";

// The wait is so long that only the test can end it.
const ENDLESS = { retryDelayMs: 300_000, maxDelayMs: 300_000, backoff: "fixed", jitter: "none" };

// Retries without a limit.
const PATIENT = { retryDelayMs: 5, backoff: "fixed" };

const never = () => {
  throw new Error("the function must not run");
};

export function forms(t) {
  describe.concurrent("every form", () => {
    test.each(ALL_FORMS)(
      "%s: the lock is held while it is used, and free afterwards",
      async (form) => {
        const backend = await t.backend();
        const key = t.key();
        const value = { any: "thing" };
        const outcome = await FORMS[form](backend, { key, ttlMs: 45_000 }, async (held) => {
          expect(await owns(backend, held.lockId)).toBe(true);
          expect(held.fence).toBe("000000000000001");
          expect(held.expiresAtMs).toBe((await backend.lookup({ key })).expiresAtMs);
          expect(held.signal).toBeInstanceOf(AbortSignal);
          expect(held.signal.aborted).toBe(false);
          expect(held.isHeld()).toBe(true);
          expect(held.throwIfLost()).toBeUndefined();
          return value;
        });
        expect(outcome).toBe(value);
        expect(await backend.isLocked({ key })).toBe(false);
      },
    );

    test.each(ALL_FORMS)("%s: an error is thrown unchanged, and the lock is free", async (form) => {
      const backend = await t.backend();
      const key = t.key();
      const mine = new TypeError("mine");
      expect(await rejection(FORMS[form](backend, { key }, () => Promise.reject(mine)))).toBe(mine);
      expect(await backend.isLocked({ key })).toBe(false);
    });

    test.each(ALL_FORMS)("%s: extend() by the config's ttl, or by another", async (form) => {
      const backend = await t.backend();
      const key = t.key();
      await FORMS[form](backend, { key, ttlMs: 20_000 }, async (held) => {
        expect(held.isHeld(19_000)).toBe(true);
        expect(held.isHeld(21_000)).toBe(false);
        const longer = await held.extend(60_000);
        expect(longer.ok).toBe(true);
        expect(held.expiresAtMs).toBe(longer.expiresAtMs);
        expect((await backend.lookup({ key })).expiresAtMs).toBe(longer.expiresAtMs);
        expect(held.isHeld(50_000)).toBe(true);
        const again = await held.extend();
        expect(again.expiresAtMs).toBeLessThan(longer.expiresAtMs);
        expect(held.isHeld(21_000)).toBe(false);
        expect(held.isHeld()).toBe(true);
      });
    });

    test.each(ALL_FORMS)("%s: its methods do not depend on this", async (form) => {
      const backend = await t.backend();
      await FORMS[form](backend, { key: t.key() }, async (held) => {
        const { isHeld, throwIfLost, extend } = held;
        expect(isHeld()).toBe(true);
        throwIfLost();
        expect((await extend(60_000)).ok).toBe(true);
      });
    });

    test.each(ALL_FORMS)(
      "%s: the caller's signal aborts the lock's, which stays held",
      async (form) => {
        const backend = await t.backend();
        const key = t.key();
        const controller = new AbortController();
        const reason = new Error("enough");
        const config = { key, signal: controller.signal };
        await FORMS[form](backend, config, async (held) => {
          expect(held.signal.aborted).toBe(false);
          controller.abort(reason);
          expect(held.signal.reason).toBe(reason);
          expect(held.isHeld()).toBe(true);
          expect(await owns(backend, held.lockId)).toBe(true);
        });
        expect(await backend.isLocked({ key })).toBe(false);
        expect(getEventListeners(controller.signal, "abort")).toHaveLength(0);
      },
    );

    test.each(ALL_FORMS)("%s: makes no attempt if a signal is aborted", async (form) => {
      const backend = await t.backend();
      const key = t.key();
      const signal = AbortSignal.abort();
      for (const given of [{ signal }, { acquisition: { signal } }]) {
        const error = await rejection(FORMS[form](backend, { key, ...given }, never));
        expect(error).toBeInstanceOf(LockError);
        expect(error.code).toBe("Aborted");
      }
      const first = await backend.acquire({ key, ttlMs: 60_000 });
      expect(first.fence).toBe("000000000000001");
      await first.release();
    });

    test.each(ALL_FORMS)("%s: wrong input rejects", async (form) => {
      const backend = await t.backend();
      const wrong = [
        [{ key: "" }, "Key must not be empty"],
        [{ key: 7 }, "Key must be a string"],
        [{ key: "k", ttlMs: 0 }, "ttlMs must be a positive integer"],
        [{ key: "k", maxHoldMs: 0 }, "maxHoldMs"],
        [{ key: "k", minHoldMs: -1 }, "minHoldMs"],
        [{ key: "k", throwIfLost: "yes" }, "throwIfLost"],
        [{ key: "k", autoExtend: 1 }, "autoExtend"],
        [{ key: "k", name: 7 }, "name"],
        [{ key: "k", acquisition: { maxDelayMs: -1 } }, "acquisition.maxDelayMs"],
        // The error for a near miss names the right option.
        [{ key: "k", ttl: 1000 }, '"ttlMs"'],
        [{ key: "k", autoextend: true }, '"autoExtend"'],
        [{ key: "k", acquisition: { timeout: 1 } }, '"acquisition.timeoutMs"'],
      ];
      for (const [config, text] of wrong) {
        const promise = FORMS[form](backend, config, never);
        expect(promise).toBeInstanceOf(Promise);
        const error = await rejection(promise);
        expect(error).toBeInstanceOf(LockError);
        expect(error.code).toBe("InvalidArgument");
        expect(error.message).toContain(text);
      }
      expect(await backend.isLocked({ key: "k" })).toBe(false);
    });

    test.each(ALL_FORMS)("%s: ignores a field that resembles no option", async (form) => {
      const backend = await t.backend();
      const config = { key: t.key(), tenant: "a", acquisition: { owner: "b" } };
      expect(await FORMS[form](backend, config, () => "done")).toBe("done");
    });

    test.each(WAITING_FORMS)("%s waits until the holder releases", async (form) => {
      const backend = await t.backend();
      const key = t.key();
      const holder = await backend.acquire({ key, ttlMs: 600_000 });
      const order = [];
      const acquisition = t.native
        ? { ...ENDLESS, ...limits(form) }
        : { ...PATIENT, ...limits(form) };
      const waiting = FORMS[form](backend, { key, acquisition }, ({ fence }) => {
        order.push("entered");
        return fence;
      });
      for (let i = 0; i < 10; i++) await turn();
      order.push("released");
      await holder.release();
      expect((await waiting) > holder.fence).toBe(true);
      expect(order).toEqual(["released", "entered"]);
    });

    test.each(TRYING_FORMS)("%s does not wait, even with options about waiting", async (form) => {
      const backend = await t.backend();
      const key = t.key();
      const holder = await backend.acquire({ key, ttlMs: 600_000 });
      const askedAt = performance.now();
      const acquisition = { ...ENDLESS, ...limits("lock") };
      expect(await FORMS[form](backend, { key, acquisition }, never)).toBe(NOT_HAD);
      expect(performance.now() - askedAt).toBeLessThan(NOISE_MS);
      expect((await holder.release()).ok).toBe(true);
      expect(await FORMS[form](backend, { key }, () => "had")).toBe("had");
    });
  });

  describe.concurrent("tryLock, hold and tryHold", () => {
    test("tryLock returns whether the function ran", async () => {
      const backend = await t.backend();
      const key = t.key();
      expect(await tryLock(backend, () => 7, { key })).toEqual({ ok: true, value: 7 });
      expect(await tryLock(backend, () => {}, { key })).toEqual({ ok: true, value: undefined });
      const holder = await backend.acquire({ key, ttlMs: 60_000 });
      expect(await tryLock(backend, never, { key })).toEqual({ ok: false, reason: "locked" });
      await holder.release();
    });

    test("hold gives up after timeoutMs, as lock() does", async () => {
      const backend = await t.backend();
      const key = t.key();
      const holder = await backend.acquire({ key, ttlMs: 600_000 });
      const askedAt = performance.now();
      const error = await rejection(hold(backend, { key, acquisition: { timeoutMs: 200 } }));
      const took = performance.now() - askedAt;
      expect(error).toBeInstanceOf(LockError);
      expect(error.code).toBe("AcquisitionTimeout");
      expect(error.message).toContain("Failed to acquire lock");
      expect(took).toBeGreaterThanOrEqual(195);
      expect(took).toBeLessThan(200 + NOISE_MS);
      await holder.release();
    });

    test("a wait of hold() is cancelled by either signal", async () => {
      const backend = await t.backend();
      const key = t.key();
      const holder = await backend.acquire({ key, ttlMs: 600_000 });
      const endless = { ...ENDLESS, timeoutMs: 600_000 };
      for (const [place, text] of [
        [(signal) => ({ signal, acquisition: endless }), "cancelled by user signal"],
        [(signal) => ({ acquisition: { ...endless, signal } }), "Acquisition cancelled"],
      ]) {
        const controller = new AbortController();
        const waiting = rejection(hold(backend, { key, ...place(controller.signal) }));
        for (let i = 0; i < 10; i++) await turn();
        controller.abort();
        const error = await waiting;
        expect(error.code).toBe("Aborted");
        expect(error.message).toContain(text);
        expect(getEventListeners(controller.signal, "abort")).toHaveLength(0);
      }
      await holder.release();
    });

    test.each([
      ["hold", hold],
      ["tryHold", tryHold],
    ])("%s: a second release does nothing", async (_, form) => {
      const backend = await t.backend();
      const key = t.key();
      const held = await form(backend, { key, ttlMs: 60_000 });
      const both = await Promise.all([held.release(), held.release()]);
      expect(both.map(({ ok }) => ok)).toEqual([true, false]);
      expect(held.isHeld()).toBe(false);
      expect(() => held.throwIfLost()).toThrow(expect.objectContaining({ code: "LockLost" }));
      expect(await held.extend(60_000)).toEqual({ ok: false });
      const next = await backend.acquire({ key, ttlMs: 60_000 });
      expect(await held[Symbol.asyncDispose]()).toBeUndefined();
      expect(await owns(backend, next.lockId)).toBe(true);
      await next.release();
    });

    test("hold: release() of a lock that was released elsewhere returns that, and dispose reports nothing", async () => {
      const failures = [];
      const backend = await t.backend();
      for (const end of ["release", Symbol.asyncDispose]) {
        const onReleaseError = (error) => failures.push(error);
        const held = await hold(backend, { key: t.key(), ttlMs: 60_000, onReleaseError });
        await backend.release({ lockId: held.lockId });
        const ended = await held[end]();
        if (end === "release") expect(ended).toEqual({ ok: false });
      }
      expect(failures).toEqual([]);
    });
  });
}

/** lead() waits without a limit. The other forms need one. */
function limits(form) {
  return form === "lead" ? {} : { maxRetries: 1_000_000, timeoutMs: 600_000 };
}
