import { createHash } from "node:crypto";
import { describe, expect, test } from "vitest";
import {
  generateLockId,
  hashKey,
  makeStorageKey,
  normalizeAndValidateKey,
  validateLockId,
} from "../../js/common.js";

const invalid = (message) => expect.objectContaining({ code: "InvalidArgument", message });
const sha256 = (text) => createHash("sha256").update(text).digest();

describe("normalizeAndValidateKey", () => {
  test("returns the key in NFC", () => {
    expect(normalizeAndValidateKey("cafe\u0301")).toBe("caf\u00e9");
    expect(normalizeAndValidateKey("plain:key")).toBe("plain:key");
  });

  test("counts bytes, after normalization", () => {
    expect(normalizeAndValidateKey("x".repeat(512))).toHaveLength(512);
    // 256 characters that are 3 bytes each as written and 2 bytes each in NFC.
    expect(normalizeAndValidateKey("e\u0301".repeat(256))).toBe("\u00e9".repeat(256));
    expect(() => normalizeAndValidateKey("\u00e9".repeat(257))).toThrow(
      invalid(expect.stringContaining("Key exceeds maximum length of 512 bytes")),
    );
  });

  test.each([undefined, null, 1, {}, Symbol("s")])("refuses %o", (value) => {
    expect(() => normalizeAndValidateKey(value)).toThrow(invalid("Key must be a string"));
  });

  test("refuses an empty key", () => {
    expect(() => normalizeAndValidateKey("")).toThrow(invalid("Key must not be empty"));
  });
});

describe("lock ids", () => {
  test("are 22 base64url characters, all different", () => {
    const ids = Array.from({ length: 100 }, generateLockId);
    expect(new Set(ids).size).toBe(100);
    for (const id of ids) {
      expect(id).toMatch(/^[A-Za-z0-9_-]{22}$/);
      validateLockId(id);
    }
  });

  test.each([
    "",
    "short",
    "x".repeat(23),
    `${"x".repeat(21)}=`,
    `${"x".repeat(21)}\u00e9`,
    1,
    null,
  ])("%o is refused", (value) => {
    expect(() => validateLockId(value)).toThrow(
      invalid(expect.stringContaining("Invalid lockId format")),
    );
  });

  test("the error does not contain the refused value", () => {
    expect(() => validateLockId("not-a-lock-id")).toThrow(
      invalid(expect.not.stringContaining("not-a-lock-id")),
    );
  });
});

test("hashKey: 24 hex characters of SHA-256 over the NFC form", () => {
  expect(hashKey("key")).toBe(sha256("key").toString("hex").slice(0, 24));
  expect(hashKey("cafe\u0301")).toBe(hashKey("caf\u00e9"));
  expect(() => hashKey(1)).toThrow(invalid(expect.any(String)));
});

describe("makeStorageKey", () => {
  test("joins prefix and key, or returns the key alone", () => {
    expect(makeStorageKey("app", "k", 1000, 26)).toBe("app:k");
    expect(makeStorageKey("app::", "k", 1000, 26)).toBe("app:k");
    expect(makeStorageKey("", "k", 1000, 26)).toBe("k");
  });

  test("hashes the full prefixed key if it is too long", () => {
    const key = "x".repeat(100);
    const hash = sha256(`app:${key}`).subarray(0, 16).toString("base64url");
    expect(makeStorageKey("app", key, 60, 26)).toBe(`app:${hash}`);
    expect(makeStorageKey("app", key, 104, 0)).toBe(`app:${key}`);
  });

  test("refuses prefixes that cannot fit, and wrong types", () => {
    expect(() => makeStorageKey("p".repeat(60), "k", 60, 0)).toThrow(
      invalid(expect.stringContaining("Prefix exceeds backend limit")),
    );
    expect(() => makeStorageKey("p", "", 60, 0)).toThrow(invalid("Key must not be empty"));
    expect(() => makeStorageKey(1, "k", 60, 0)).toThrow(invalid(expect.any(String)));
    expect(() => makeStorageKey("p", 1, 60, 0)).toThrow(invalid("Key must be a string"));
    for (const bytes of [-1, 1.5, NaN, "60", undefined]) {
      expect(() => makeStorageKey("p", "k", bytes, 0)).toThrow(
        invalid(expect.stringContaining("limitBytes")),
      );
      expect(() => makeStorageKey("p", "k", 60, bytes)).toThrow(
        invalid(expect.stringContaining("reserveBytes")),
      );
    }
  });
});
