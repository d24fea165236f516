// The functions without a backend: storage keys compared to an independent implementation, and any
// value for any argument.

import { createHash } from "node:crypto";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  BACKEND_LIMITS,
  LockError,
  MAX_KEY_LENGTH_BYTES,
  RESERVE_BYTES,
  formatFence,
  generateLockId,
  hashKey,
  makeStorageKey,
  normalizeAndValidateKey,
  validateLockId,
} from "../fixtures/api.js";
import { Box, anything } from "./arbitraries.js";

const RUNS = { numRuns: 2000 };
const bytes = (text) => Buffer.byteLength(text);

/** Returns the result, or the LockError that was thrown. Any other error fails the test. */
function attempt(call) {
  try {
    return { value: call() };
  } catch (error) {
    if (!(error instanceof LockError)) throw error;
    expect(error.code).toBe("InvalidArgument");
    return { error };
  }
}

/** Checks for lone surrogates in another way than the implementation does. */
function isWellFormed(string) {
  try {
    encodeURIComponent(string);
    return true;
  } catch {
    return false;
  }
}

/** Generates any code units, including lone halves of surrogate pairs in any order. */
const codeUnits = (maxLength) =>
  fc
    .array(
      fc.oneof(
        fc.integer({ min: 0, max: 0xffff }),
        fc.constantFrom(0x61, 0xd800, 0xdbff, 0xdc00, 0xdfff, 0xfffd),
      ),
      { maxLength },
    )
    .map((units) => String.fromCharCode(...units));

const text = (maxLength) =>
  fc.oneof(
    codeUnits(Math.min(maxLength, 10)),
    fc.string({ unit: "grapheme", maxLength }),
    fc.string({ unit: "binary", maxLength }),
    fc.string({ maxLength }),
    fc
      .constantFrom("a", "é", "😀", "e\u0301", ":", "\0")
      .chain((unit) => fc.integer({ min: 0, max: maxLength }).map((count) => unit.repeat(count))),
  );

describe("makeStorageKey", () => {
  const limits = fc.oneof(
    fc.constantFrom(
      [BACKEND_LIMITS.REDIS, RESERVE_BYTES.REDIS],
      [BACKEND_LIMITS.POSTGRES, RESERVE_BYTES.POSTGRES],
      [BACKEND_LIMITS.FIRESTORE, RESERVE_BYTES.FIRESTORE],
    ),
    fc.tuple(fc.integer({ min: 1, max: 200 }), fc.integer({ min: 0, max: 60 })),
  );

  /** The documented rule, implemented independently. */
  function expected(prefix, key, limit, reserve) {
    if (!isWellFormed(prefix) || !isWellFormed(key)) return null;
    const start = prefix.normalize("NFC").replace(/:+$/, "");
    const head = start === "" ? "" : `${start}:`;
    const full = head + key.normalize("NFC");
    if (key === "" || bytes(head) + reserve > limit) return null;
    if (bytes(full) + reserve <= limit) return full;
    const digest = createHash("sha256").update(full).digest().subarray(0, 16);
    const short = head + digest.toString("base64url");
    return bytes(short) + reserve <= limit ? short : null;
  }

  test("follows the documented rule", () => {
    const seen = { plain: 0, hashed: 0, refused: 0 };
    fc.assert(
      fc.property(text(40), text(600), limits, (prefix, key, [limit, reserve]) => {
        const want = expected(prefix, key, limit, reserve);
        const { value, error } = attempt(() => makeStorageKey(prefix, key, limit, reserve));
        if (want === null) expect(error).toBeInstanceOf(LockError);
        else expect(value).toBe(want);
        if (want === null) seen.refused += 1;
        else if (want.endsWith(key.normalize("NFC"))) seen.plain += 1;
        else seen.hashed += 1;
      }),
      RUNS,
    );
    for (const count of Object.values(seen)) expect(count).toBeGreaterThan(20);
  });

  test("is deterministic, respects the limit, and keeps different keys apart", () => {
    fc.assert(
      fc.property(text(600), text(600), limits, (one, other, [limit, reserve]) => {
        const make = (key) => attempt(() => makeStorageKey("app", key, limit, reserve)).value;
        const [first, second] = [make(one), make(other)];
        if (first === undefined || second === undefined) return;
        expect(make(one)).toBe(first);
        expect(bytes(first) + reserve).toBeLessThanOrEqual(limit);
        expect(first === second).toBe(one.normalize("NFC") === other.normalize("NFC"));
      }),
      RUNS,
    );
  });

  test("accepts or refuses any values", () => {
    fc.assert(
      fc.property(anything, anything, anything, anything, (...boxes) => {
        const { value } = attempt(() => makeStorageKey(...boxes.map((box) => box.open())));
        if (value !== undefined) expect(typeof value).toBe("string");
      }),
      RUNS,
    );
  });
});

describe("keys and ids", () => {
  test("normalizeAndValidateKey: NFC within the limit, or refused", () => {
    fc.assert(
      fc.property(text(700), (key) => {
        const normal = key.normalize("NFC");
        const { value, error } = attempt(() => normalizeAndValidateKey(key));
        if (!isWellFormed(key)) {
          expect(error.message).toContain("Key is not well-formed Unicode");
        } else if (key === "" || bytes(normal) > MAX_KEY_LENGTH_BYTES) {
          expect(error).toBeInstanceOf(LockError);
        } else {
          expect(value).toBe(normal);
        }
      }),
      RUNS,
    );
  });

  test("different keys stay different, whatever code units they are made of", () => {
    const seen = { refused: 0, accepted: 0 };
    fc.assert(
      fc.property(codeUnits(8), codeUnits(8), (one, other) => {
        for (const make of [normalizeAndValidateKey, hashKey]) {
          const [first, second] = [one, other].map((key) => attempt(() => make(key)));
          for (const [key, { error }] of [
            [one, first],
            [other, second],
          ]) {
            if (isWellFormed(key)) continue;
            expect(error.message).toContain("is not well-formed Unicode");
            seen.refused += 1;
          }
          if (first.error || second.error) continue;
          seen.accepted += 1;
          const isSame = one.normalize("NFC") === other.normalize("NFC");
          expect(first.value === second.value).toBe(isSame);
        }
      }),
      RUNS,
    );
    for (const count of Object.values(seen)) expect(count).toBeGreaterThan(100);
  });

  test("normalizeAndValidateKey accepts or refuses any value", () => {
    fc.assert(
      fc.property(anything, (box) => {
        const value = box.open();
        const result = attempt(() => normalizeAndValidateKey(value));
        if (typeof value !== "string")
          expect(result.error.message).toContain("Key must be a string");
      }),
      RUNS,
    );
  });

  test("validateLockId: what the pattern says", () => {
    const nearly = fc.string({
      unit: fc.constantFrom(..."AZaz09_-+/=\n é"),
      minLength: 20,
      maxLength: 24,
    });
    const texts = fc.oneof(nearly, fc.constant(generateLockId())).map((value) => new Box(value));
    fc.assert(
      fc.property(fc.oneof(texts, anything), (box) => {
        const value = box.open();
        const valid =
          typeof value === "string" && /^[A-Za-z0-9_-]{22}$/.test(value) && value.length === 22;
        const { error } = attempt(() => validateLockId(value));
        expect(error === undefined).toBe(valid);
        if (error) expect(error.message).toContain("Invalid lockId format");
      }),
      RUNS,
    );
  });

  test("generateLockId: valid, and never the same twice", () => {
    const ids = new Set(Array.from({ length: 10_000 }, () => generateLockId()));
    expect(ids.size).toBe(10_000);
    for (const id of ids) expect(id).toMatch(/^[A-Za-z0-9_-]{22}$/);
  });

  test("hashKey: SHA-256 of the NFC form, 24 hex digits", () => {
    fc.assert(
      fc.property(text(700), (value) => {
        if (!isWellFormed(value)) return void expect(() => hashKey(value)).toThrow("well-formed");
        const digest = createHash("sha256").update(value.normalize("NFC")).digest("hex");
        expect(hashKey(value)).toBe(digest.slice(0, 24));
      }),
      RUNS,
    );
    fc.assert(
      fc.property(anything, (box) => void attempt(() => hashKey(box.open()))),
      RUNS,
    );
  });
});

describe("formatFence", () => {
  test("15 digits, in order", () => {
    const count = fc.oneof(
      fc.integer({ min: 0, max: 2 ** 40 }),
      fc.bigInt({ min: 0n, max: 10n ** 15n - 1n }),
    );
    fc.assert(
      fc.property(count, count, (one, other) => {
        const [first, second] = [formatFence(one), formatFence(other)];
        expect(first).toMatch(/^\d{15}$/);
        expect(BigInt(first)).toBe(BigInt(one));
        expect(first < second).toBe(BigInt(one) < BigInt(other));
      }),
      RUNS,
    );
  });

  test("any value", () => {
    fc.assert(
      fc.property(anything, (box) => {
        const result = attempt(() => formatFence(box.open()));
        if (result.error === undefined) expect(result.value).toMatch(/^\d{15}$/);
      }),
      RUNS,
    );
    for (const bad of [-1, -1n, 10n ** 15n, 1e15, 0.5]) {
      expect(attempt(() => formatFence(bad)).error).toBeInstanceOf(LockError);
    }
  });
});
