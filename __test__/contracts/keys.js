import { describe, expect, test } from "vitest";
import { generateLockId, getByKeyRaw } from "../fixtures/api.js";

const LONG = "k".repeat(512);

const ODD_KEYS = {
  "a space": " ",
  newlines: "a\nb\r\nc",
  NUL: "a\0b",
  "only a NUL": "\0",
  quotes: `it's "quoted" \`here\``,
  backslashes: "a\\b\\\\c\\u0041",
  braces: "{a}:}{:{}",
  JSON: `{"lockId":"x","expiresAtMs":0}`,
  "a percent sign": "100%s %d %n",
  "a colon": ":",
  colons: "::a::",
  "a fence key": "fence:x",
  "only the fence prefix": "fence:",
  "an id key": "id:AAAAAAAAAAAAAAAAAAAAAA",
  "a slash": "/",
  "a path": "a/b/c",
  "a dot": ".",
  "two dots": "..",
  "a path upwards": "../../etc",
  "a reserved document name": "__x__",
  "four underscores": "____",
  SQL: "'; DROP TABLE locks; --",
  "a prototype property": "__proto__",
  constructor: "constructor",
  emoji: "🔒🗝️👩‍👩‍👧‍👦",
  "right to left": "שלום‏ עולם",
  "every plane": "a\u{80}\u{7ff}\u{800}\u{ffff}\u{10000}\u{10ffff}",
  "a long ASCII key": LONG,
  "a long two-byte key": "é".repeat(256),
  "a long four-byte key": "😀".repeat(128),
  "a byte order mark": "\ufeffkey",
  "a lone high surrogate": "a\ud800b",
  "a lone low surrogate": "\udfff",
};

export function keys(t) {
  describe("keys", () => {
    let opened;
    const backend = () => (opened ??= t.isolated());

    test.each(Object.entries(ODD_KEYS))("%s is a key like any other", async (_, key) => {
      const b = await backend();
      const lock = await b.acquire({ key, ttlMs: 60_000 });
      expect(lock.ok).toBe(true);
      expect(lock.fence).toBe("000000000000001");
      expect(await b.isLocked({ key })).toBe(true);
      expect((await b.acquire({ key, ttlMs: 60_000 })).ok).toBe(false);
      // What UTF-8 cannot carry is replaced, as by TextEncoder.
      const stored = key.normalize("NFC").toWellFormed();
      expect((await getByKeyRaw(b, key)).key).toBe(stored);
      expect((await b.extend({ lockId: lock.lockId, ttlMs: 60_000 })).ok).toBe(true);
      expect((await b.release({ lockId: lock.lockId })).ok).toBe(true);
      expect(await b.isLocked({ key })).toBe(false);
      const again = await b.acquire({ key, ttlMs: 60_000 });
      expect(again.fence).toBe("000000000000002");
      await again.release();
    });

    test("all of them can be held at once: none stands in the place of another", async () => {
      const b = await t.isolated();
      const all = Object.values(ODD_KEYS);
      const locks = [];
      for (const key of all) locks.push(await b.acquire({ key, ttlMs: 60_000 }));
      expect(locks.filter((lock) => !lock.ok)).toEqual([]);
      for (const lock of locks) expect((await lock.release()).ok).toBe(true);
    });

    test("two spellings of one text are one key", async () => {
      const b = await backend();
      const composed = "caf\u00e9";
      const decomposed = "cafe\u0301";
      const lock = await b.acquire({ key: decomposed, ttlMs: 60_000 });
      expect((await b.acquire({ key: composed, ttlMs: 60_000 })).ok).toBe(false);
      expect(await b.isLocked({ key: composed })).toBe(true);
      expect((await b.lookup({ key: composed })).fence).toBe(lock.fence);
      await lock.release();
    });

    test("keys that look alike are different keys", async () => {
      const b = await backend();
      const alike = ["x", "X", "x ", " x", "x\0", "х" /* Cyrillic */, "x:", ":x", "ｘ", "x\u200b"];
      const locks = [];
      for (const key of alike) locks.push(await b.acquire({ key, ttlMs: 60_000 }));
      expect(locks.filter((lock) => lock.ok)).toHaveLength(alike.length);
      await Promise.all(locks.map((lock) => lock.release()));
    });

    test("a key made to look like another lock's own records does not reach them", async () => {
      const b = await backend();
      const key = t.key("victim");
      const lock = await b.acquire({ key, ttlMs: 60_000 });
      for (const attack of [
        `fence:${key}`,
        `fence:fence:${key}`,
        `id:${lock.lockId}`,
        `id:${generateLockId()}`,
        lock.lockId,
        `${key}:fence`,
      ]) {
        const other = await b.acquire({ key: attack, ttlMs: 60_000 });
        expect(other.ok).toBe(true);
        expect((await other.release()).ok).toBe(true);
      }
      expect((await b.lookup({ lockId: lock.lockId })).fence).toBe(lock.fence);
      expect((await lock.release()).ok).toBe(true);
      const next = await b.acquire({ key, ttlMs: 60_000 });
      expect(next.fence).toBe("000000000000002");
      await next.release();
    });
  });
}
