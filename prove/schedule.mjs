// Computes the schedule of faults from the seed.

import { randomFrom } from "./random.mjs";

/**
 * Returns the faults of one lane in order: `{ at, kind, ms, random }`, with `at` in milliseconds since
 * the start, and further choices as numbers in [0, 1).
 * @param {string} seed
 * @param {Record<string, [number, number]>} kinds each with how long it lasts, in milliseconds
 * @param {{ endMs: number, gapMs: [number, number] }} span
 */
export function schedule(seed, kinds, { endMs, gapMs }) {
  const random = randomFrom(seed);
  const names = Object.keys(kinds);
  const plan = [];
  if (names.length === 0) return plan;
  let deck = [];
  // The first fault comes early, so that short runs have some.
  for (let at = random.real(...gapMs) / 4; ;) {
    // Kinds are drawn like cards from a deck: each comes once before any is repeated.
    if (deck.length === 0) deck = random.shuffled(names);
    const kind = deck.pop();
    const ms = random.real(...kinds[kind]);
    const choices = [random.real(), random.real()];
    if (at + ms > endMs) return plan;
    plan.push({ at, kind, ms, choices });
    at += ms + random.real(...gapMs);
  }
}
