// Work that goes on while servers die and move.

import { until } from "../fixtures/wait.js";

/**
 * Does `work` for each of the items again and again until it is told to stop. What it throws is seen
 * by its code; what returns true counts.
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
