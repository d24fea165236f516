// Converts names to keys. A name is any string of JavaScript. A key is well-formed Unicode in NFC, not empty
// and of limited length. Each name has a key of its own, which is the same in every version of every runtime.

import { createHash } from "node:crypto";
import { MAX_KEY_LENGTH_BYTES } from "../base/constants.js";

/** The prefix of a key from which the name can be read. */
const READABLE = "web-locks:";
/** The prefix of a key that contains only a hash, because the name is too long. */
const HASHED = "web-locks-sha256:";

/**
 * The characters that a key cannot contain, or that some version of Unicode might normalize. Printable ASCII
 * and the letters of Latin-1 and Latin Extended-A stay readable.
 */
const ESCAPED = /[^\x20-\x24\x26-\x7e\u00c0-\u017f]/g;
const ESCAPE = /%u([0-9A-F]{4})/g;

/**
 * @param {string} name
 * @returns {string}
 */
export function keyOf(name) {
  const key = READABLE + name.replace(ESCAPED, escapeUnit);
  if (Buffer.byteLength(key) <= MAX_KEY_LENGTH_BYTES) return key;
  // UTF-16 keeps lone surrogates apart, which UTF-8 cannot represent.
  const hash = createHash("sha256").update(Buffer.from(name, "utf16le"));
  return HASHED + hash.digest("base64url");
}

/**
 * Returns the name of a key. `undefined` if the name was too long, or if this is not the key of a name.
 * @param {string} key
 * @returns {string | undefined}
 */
export function nameOf(key) {
  if (!key.startsWith(READABLE)) return undefined;
  const name = key
    .slice(READABLE.length)
    .replace(ESCAPE, (_, unit) => String.fromCharCode(Number.parseInt(unit, 16)));
  return keyOf(name) === key ? name : undefined;
}

/** @param {string} unit one UTF-16 code unit */
function escapeUnit(unit) {
  return `%u${unit.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
}
