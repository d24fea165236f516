import { inspect } from "node:util";
import { describe, expect, test } from "vitest";
import { LockError, generateLockId, getByKey, getByKeyRaw } from "../fixtures/api.js";
import { ALL_FORMS, FORMS } from "../fixtures/forms.js";
import { rejection } from "./setup.js";

const lockId = generateLockId();

const NOT_WELL_FORMED = "Key is not well-formed Unicode";

const BAD_KEYS = [
  ["undefined", undefined, "Key must be a string"],
  ["null", null, "Key must be a string"],
  ["a number", 7, "Key must be a string"],
  ["a String object", new String("key"), "Key must be a string"],
  ["an array", ["key"], "Key must be a string"],
  ["a symbol", Symbol("key"), "Key must be a string"],
  ["an empty string", "", "Key must not be empty"],
  ["513 bytes", "k".repeat(513), "Key exceeds maximum length of 512 bytes"],
  ["513 bytes in 257 characters", "é".repeat(256) + "k", "Key exceeds maximum length of 512 bytes"],
  ["a lone high surrogate", "a\ud800b", NOT_WELL_FORMED],
  ["a lone low surrogate", "\udfff", NOT_WELL_FORMED],
  ["a character that was cut", "report:😀".slice(0, -1), NOT_WELL_FORMED],
  ["surrogates in the wrong order", "\udc00\ud800", NOT_WELL_FORMED],
  ["a megabyte", "k".repeat(1 << 20), "Key exceeds maximum length of 512 bytes"],
];

const BAD_IDS = [
  ["undefined", undefined],
  ["null", null],
  ["a number", 1234567890123456],
  ["an empty string", ""],
  ["21 characters", "A".repeat(21)],
  ["23 characters", "A".repeat(23)],
  ["plain base64", "AAAAAAAAAAAAAAAAAAAA+/"],
  ["padding", "AAAAAAAAAAAAAAAAAAAAA="],
  ["a newline at the end", "A".repeat(21) + "\n"],
  ["22 characters and a newline", "A".repeat(22) + "\n"],
  ["a letter outside ASCII", "é".repeat(11)],
  ["22 letters outside ASCII", "é".repeat(22)],
];

const BAD_TTLS = [
  ["undefined", undefined],
  ["null", null],
  ["a string", "1000"],
  ["zero", 0],
  ["minus zero", -0],
  ["a negative number", -1],
  ["a fraction", 0.5],
  ["1.5", 1.5],
  ["NaN", NaN],
  ["Infinity", Infinity],
  ["a bigint", 1000n],
  ["true", true],
];

/** Checks a refusal: a rejected promise with the code, the name and the text, which shows no secret. */
async function expectInvalid(call, text) {
  const promise = call(); // must not throw here
  expect(promise).toBeInstanceOf(Promise);
  const error = await rejection(promise);
  expect(error).toBeInstanceOf(LockError);
  expect(error).toBeInstanceOf(Error);
  expect(error.name).toBe("LockError");
  expect(error.code).toBe("InvalidArgument");
  expect(error.message).toContain(text);
  return error;
}

export function errors(t) {
  describe("wrong input", () => {
    test.each(BAD_KEYS)("key: %s", async (_, key, text) => {
      const backend = await t.backend();
      await expectInvalid(() => backend.acquire({ key, ttlMs: 1000 }), text);
      await expectInvalid(() => backend.isLocked({ key }), text);
      // lookup cannot know that a key was meant if there is none.
      if (key !== undefined) await expectInvalid(() => backend.lookup({ key }), text);
      await expectInvalid(() => getByKey(backend, key), text);
      await expectInvalid(() => getByKeyRaw(backend, key), text);
      for (const form of ALL_FORMS) {
        await expectInvalid(
          () => FORMS[form](backend, { key }, () => expect.fail("entered")),
          text,
        );
      }
    });

    test.each(BAD_IDS)("lockId: %s", async (_, id) => {
      const backend = await t.backend();
      const text = "Invalid lockId format";
      await expectInvalid(() => backend.release({ lockId: id }), text);
      await expectInvalid(() => backend.extend({ lockId: id, ttlMs: 1000 }), text);
      if (id !== undefined) await expectInvalid(() => backend.lookup({ lockId: id }), text);
    });

    test.each(BAD_TTLS)("ttlMs: %s", async (_, ttlMs) => {
      const backend = await t.backend();
      const key = t.key();
      const text = "ttlMs must be a positive integer";
      await expectInvalid(() => backend.acquire({ key, ttlMs }), text);
      expect(await backend.isLocked({ key })).toBe(false);
      await expectInvalid(() => backend.extend({ lockId, ttlMs }), text);
      const lock = await backend.acquire({ key, ttlMs: 60_000 });
      await expectInvalid(() => lock.extend(ttlMs), text);
      expect((await backend.lookup({ key })).expiresAtMs).toBe(lock.expiresAtMs);
      await lock.release();
    });

    test("lookup with both or neither of key and lockId", async () => {
      const backend = await t.backend();
      const text = "either a key or a lockId";
      await expectInvalid(() => backend.lookup({ key: "k", lockId }), text);
      await expectInvalid(() => backend.lookup({}), text);
    });

    test.each([
      ["nothing", []],
      ["null", [null]],
      ["a string", ["key"]],
      ["a number", [7]],
      ["a symbol", [Symbol("s")]],
    ])("%s instead of options", async (_, given) => {
      const backend = await t.backend();
      const missing = {
        acquire: "Key must be a string",
        release: "Invalid lockId format",
        extend: "Invalid lockId format",
        isLocked: "Key must be a string",
        lookup: "either a key or a lockId",
      };
      for (const [operation, text] of Object.entries(missing)) {
        const said = given[0] == null ? "in place of its options" : text;
        await expectInvalid(() => backend[operation](...given), said);
      }
    });

    test("an error does not print what was passed", async () => {
      const backend = await t.backend();
      const secret = "s3cr3t-" + "k".repeat(600);
      const error = await rejection(backend.acquire({ key: secret, ttlMs: 1000 }));
      expect(inspect(error)).not.toContain("s3cr3t");
      expect(JSON.stringify(error)).not.toContain("s3cr3t");
    });

    test("an error's stack leads to the caller", async () => {
      const backend = await t.backend();
      async function theCaller() {
        await backend.acquire({ key: "", ttlMs: 1000 });
      }
      // The stack of a decorated custom backend is deeper than the frames that are shown by default.
      const { stackTraceLimit } = Error;
      Error.stackTraceLimit = 30;
      const error = await rejection(theCaller());
      Error.stackTraceLimit = stackTraceLimit;
      expect(error.stack).toContain("theCaller");
    });
  });
}
