// The texts that are keys, and the texts that are the same key.

import assert from "node:assert/strict";
import { LONG_TTL_MS } from "../context.js";

/** Keys that have a special meaning in some store, or are easily mangled on the way to it. */
export const ODD_KEYS = {
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
  "right to left": "שלום\u200f עולם",
  "every plane": "a\u{80}\u{7ff}\u{800}\u{ffff}\u{10000}\u{10ffff}",
  "a long ASCII key": "k".repeat(512),
  "a long two-byte key": "é".repeat(256),
  "a long four-byte key": "😀".repeat(128),
  "a byte order mark": "\ufeffkey",
};

const ALIKE = ["x", "X", "x ", " x", "x\0", "х" /* Cyrillic */, "x:", ":x", "ｘ", "x\u200b"];

/**
 * Holds locks on all keys at once. The keys are the same in every run. The TTL is short, so that a lock
 * that an aborted run left behind is soon gone.
 * @param {import("../context.js").Context} t
 * @param {[string, string][]} keys each with its name in messages
 */
async function holdTogether(t, keys) {
  const backend = await t.backend();
  const ttlMs = Math.max(5_000, t.ttlMs);
  const locks = [];
  try {
    for (const [name, key] of keys) {
      const lock = await backend.acquire({ key, ttlMs });
      assert.equal(lock.ok, true, `the key ${name} is taken for one of the others`);
      locks.push(lock);
    }
    for (const [name, key] of keys) {
      assert.equal(await backend.isLocked({ key }), true, `the key ${name} is not locked`);
    }
  } finally {
    for (const { lockId } of locks) await backend.release({ lockId });
  }
}

/** @type {Record<string, import("../suite.js").Behaviour>} */
export const naming = {
  "any-text": {
    title: "any text up to 512 bytes is a key, and different texts are different locks",
    run: (t) => holdTogether(t, Object.entries(ODD_KEYS)),
  },

  "similar-keys": {
    title: "keys that look alike are different keys",
    run: (t) =>
      holdTogether(
        t,
        ALIKE.map((key) => [JSON.stringify(key), key]),
      ),
  },

  "normalized-keys": {
    title: "two spellings of one text are one key",
    async run(t) {
      const backend = await t.backend();
      const label = t.key();
      const [composed, decomposed] = [`${label}caf\u00e9`, `${label}cafe\u0301`];
      const { lockId } = await t.acquire(backend, decomposed);
      const other = await backend.acquire({ key: composed, ttlMs: LONG_TTL_MS });
      assert.equal(other.ok, false, "keys are compared in NFC: see normalizeAndValidateKey()");
      assert.equal(await backend.isLocked({ key: composed }), true);
      assert.notEqual(await backend.lookup({ key: composed }), null);
      await backend.release({ lockId });
    },
  },
};
