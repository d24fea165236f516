// The function of a lock outlives the lock.

import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { LockError, lock, tryLock } from "../fixtures/api.js";
import { ENDING_FORMS, FORMS } from "../fixtures/forms.js";
import { aborted, block, untilFree } from "../fixtures/wait.js";
import { rejection } from "./setup.js";

function expectLost(error) {
  expect(error).toBeInstanceOf(LockError);
  expect(error.code).toBe("LockLost");
}

export function outliving(t) {
  describe("a lock that is lost before the function returned", () => {
    let warn;
    beforeEach(() => {
      warn = vi.spyOn(process, "emitWarning").mockImplementation(() => {});
    });
    afterEach(() => void vi.restoreAllMocks());
    const outlive = async ({ signal }) => {
      await aborted(signal);
      return "done";
    };
    const RUNNING = [
      ["lock", lock, "done"],
      ["tryLock", tryLock, { ok: true, value: "done" }],
    ];

    test.each(RUNNING)("%s with throwIfLost rejects", async (_, form) => {
      const backend = await t.backend();
      const key = t.key();
      expectLost(await rejection(form(backend, outlive, { key, ttlMs: 100, throwIfLost: true })));
      expect(warn).not.toHaveBeenCalled();
      await untilFree(backend, key);
    });

    test.each(RUNNING)("%s without it returns the value", async (_, form, value) => {
      const config = { key: t.key(), ttlMs: 100 };
      expect(await form(await t.backend(), outlive, config)).toEqual(value);
      // The warning is shown once per process, and an earlier test may have caused it.
      for (const [text, { code }] of warn.mock.calls) {
        expect(code).toBe("SYNCGUARD_LOCK_LOST");
        expect(text).not.toContain(config.key);
      }
    });

    test("an error of the function takes precedence", async () => {
      const mine = new Error("mine");
      const failing = async (context) => {
        await outlive(context);
        throw mine;
      };
      const config = { key: t.key(), ttlMs: 100, throwIfLost: true };
      expect(await rejection(lock(await t.backend(), failing, config))).toBe(mine);
      expect(warn).not.toHaveBeenCalled();
    });

    test("throwIfLost returns the value without a warning if the lock was not lost", async () => {
      const config = { key: t.key(), throwIfLost: true };
      expect(await lock(await t.backend(), () => "done", config)).toBe("done");
      expect(warn).not.toHaveBeenCalled();
    });

    test.each(ENDING_FORMS)(
      "%s: a blocked thread learns of the loss when it asks",
      async (form) => {
        const backend = await t.backend();
        await FORMS[form](backend, { key: t.key(), ttlMs: 300 }, ({ isHeld, throwIfLost }) => {
          expect(isHeld()).toBe(true);
          block(350);
          expect(isHeld()).toBe(false);
          expect(throwIfLost).toThrow(expect.objectContaining({ code: "LockLost" }));
        });
      },
    );
  });
}
