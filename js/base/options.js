// The names of options. A misspelt name must not be ignored silently.

import { invalidArgument } from "./errors.js";

/**
 * Returns the known name that was probably meant: in different case, its beginning (`ttl` for `ttlMs`), or
 * with a typing error. `undefined` if the name itself is known, or resembles no known name.
 * @param {string} name
 * @param {readonly string[]} known
 * @returns {string | undefined}
 */
export function nearMiss(name, known) {
  if (known.includes(name)) return undefined;
  const written = name.toLowerCase();
  let nearest;
  let least = Infinity;
  for (const candidate of known) {
    const meant = candidate.toLowerCase();
    const slips = isStartOf(written, meant) ? 0 : editDistance(written, meant);
    // `date` is not a misspelt `name`, nor `event` a misspelt `onEvent`.
    const most = meant.length > 4 && meant[0] === written[0] ? 2 : 1;
    if (slips < least && slips <= most) {
      nearest = candidate;
      least = slips;
    }
  }
  return nearest;
}

/**
 * @param {string} name
 * @param {readonly string[]} known
 */
export function unknownOption(name, known) {
  const meant = nearMiss(name, known);
  const hint = meant === undefined ? `use one of ${known.join(", ")}` : `did you mean "${meant}"?`;
  return invalidArgument(`Unknown option "${name}": ${hint}`);
}

/**
 * @param {string} written
 * @param {string} meant
 */
function isStartOf(written, meant) {
  return written.length > 2 && written.length * 2 >= meant.length && meant.startsWith(written);
}

/**
 * Returns the Levenshtein distance: how many letters to add, remove or replace.
 * @param {string} from
 * @param {string} to
 */
function editDistance(from, to) {
  const far = Math.abs(from.length - to.length);
  if (far > 2) return far;
  let row = Array.from({ length: to.length + 1 }, (_, column) => column);
  for (let i = 0; i < from.length; i += 1) {
    const next = [i + 1];
    for (let j = 0; j < to.length; j += 1) {
      const replaced = row[j] + (from[i] === to[j] ? 0 : 1);
      next.push(Math.min(replaced, row[j + 1] + 1, next[j] + 1));
    }
    row = next;
  }
  return row[to.length];
}

/**
 * Reads a string for telemetry. Never throws, because the operation itself reports a wrong value.
 * @param {unknown} opts
 * @param {"key" | "lockId"} name
 * @returns {string | undefined}
 */
export function readString(opts, name) {
  try {
    const value = /** @type {any} */ (opts)[name];
    return typeof value === "string" ? value : undefined;
  } catch {
    return undefined;
  }
}
