// Which faults there are when: a function of the seed.

import { randomFrom } from "./random.mjs";

/**
 * The faults of one lane, one after the other: `{ at, kind, ms, random }`, with `at` in milliseconds
 * since the begin, and further choices as numbers in [0, 1).
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
  // The first comes sooner, so that a short run has some.
  for (let at = random.real(...gapMs) / 4; ;) {
    // As from a deck of cards: each kind comes before any comes again.
    if (deck.length === 0) deck = random.shuffled(names);
    const kind = deck.pop();
    const ms = random.real(...kinds[kind]);
    const choices = [random.real(), random.real()];
    if (at + ms > endMs) return plan;
    plan.push({ at, kind, ms, choices });
    at += ms + random.real(...gapMs);
  }
}
