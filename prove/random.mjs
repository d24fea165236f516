// Random numbers that depend on the seed only.

/** @param {string} seed */
export function randomFrom(seed) {
  let state = hash(seed);
  const real = (low = 0, high = 1) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return low + (((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * (high - low);
  };
  const below = (count) => Math.floor(real() * count);
  return {
    real,
    below,
    chance: (probability) => real() < probability,
    pick: (list) => list[below(list.length)],
    shuffled(list) {
      const rest = [...list];
      return list.map(() => rest.splice(below(rest.length), 1)[0]);
    },
  };
}

/** FNV-1a. */
function hash(text) {
  let value = 0x811c9dc5;
  for (const char of text) value = Math.imul(value ^ char.codePointAt(0), 0x01000193);
  return value;
}
