// A function that outlives its lock.

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
      warn = vi.spyOn(console, "warn").mockImplementation(() => {});
    });
    afterEach(() => {
      vi.restoreAllMocks();
      vi.unstubAllEnvs();
    });
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

    test.each(RUNNING)(
      "%s without it returns the value, and warns once",
      async (_, form, value) => {
        vi.stubEnv("NODE_ENV", "development");
        const backend = await t.backend();
        const key = t.key();
        let id;
        const use = (context) => ((id = context.lockId), outlive(context));
        expect(await form(backend, use, { key, ttlMs: 100 })).toEqual(value);
        expect(warn).toHaveBeenCalledTimes(1);
        const [text] = warn.mock.calls[0];
        expect(text).toMatch(/^\[SyncGuard\] .*\b\d+ ms\b.*ttlMs 100\b/);
        expect(text).not.toContain(key);
        expect(text).not.toContain(id);
      },
    );

    test("no warning in production", async () => {
      vi.stubEnv("NODE_ENV", "production");
      expect(await lock(await t.backend(), outlive, { key: t.key(), ttlMs: 100 })).toBe("done");
      expect(warn).not.toHaveBeenCalled();
    });

    test("an error of the function wins", async () => {
      const mine = new Error("mine");
      const failing = async (context) => {
        await outlive(context);
        throw mine;
      };
      const config = { key: t.key(), ttlMs: 100, throwIfLost: true };
      expect(await rejection(lock(await t.backend(), failing, config))).toBe(mine);
      expect(warn).not.toHaveBeenCalled();
    });

    test("throwIfLost and a lock that is not lost: the value, no warning", async () => {
      const config = { key: t.key(), throwIfLost: true };
      expect(await lock(await t.backend(), () => "done", config)).toBe("done");
      expect(warn).not.toHaveBeenCalled();
    });

    test.each(ENDING_FORMS)(
      "%s: a busy thread learns of it in the moment it asks",
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
