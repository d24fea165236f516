// Work that continues while servers die and slots move.

import { until } from "../fixtures/wait.js";

/**
 * Repeats `work` for each of the items until it is stopped. Collects the codes of its errors, and counts
 * how often it returned true.
 */
export function repeat(items, work) {
  const seen = { ok: 0, codes: new Set() };
  let going = true;
  const running = items.map(async (item) => {
    while (going) {
      try {
        if (await work(item)) seen.ok += 1;
      } catch (error) {
        seen.codes.add(error.code);
      }
    }
  });
  return {
    seen,
    more: (what) => {
      const before = seen.ok;
      return until(() => seen.ok > before + 50, what);
    },
    async stop() {
      going = false;
      await Promise.all(running);
    },
  };
}
