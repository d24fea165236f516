// The faults of a run: in its processes, in its store and in the connections between them.

import { setTimeout as sleep } from "node:timers/promises";

/** How long a process and its event loop pause, in TTLs. */
export const PAUSE_TTLS = [0.3, 3];

/**
 * Returns faults and how long they last, `{ [kind]: { ms: [from, to], act(ms, choices) } }`, and the
 * guarantees that they suspend, in `effects`. `act` may return more fields for the record.
 */
export function processFaults(place, { ttlMs, toleranceMs, clockStepMs, farClockStepMs }, canStep) {
  const pause = { ms: PAUSE_TTLS.map((ttls) => ttls * ttlMs), act: (ms) => place.pause(ms) };
  const step = (stepMs, settleMs) => ({
    ms: [1_500, 3_000],
    act: (ms, [which]) => place.stepClock(which < 0.5 ? -stepMs : stepMs, ms, settleMs),
  });
  return {
    "process killed": { ms: [0, 500], act: (ms) => place.kill(ms) },
    // Most faults are of this kind, because they reveal the most.
    "process stopped": pause,
    "process stopped again": { ...pause, kind: "process stopped" },
    "process stopped once more": { ...pause, kind: "process stopped" },
    ...(canStep && { "clock set": step(clockStepMs, 0) }),
    ...(canStep &&
      farClockStepMs && {
        "clock set by an hour": {
          ...step(farClockStepMs, 2 * (ttlMs + toleranceMs)),
          effects: { mayShareLocks: true },
        },
      }),
  };
}

/** Faults of the store and of the connections to it. */
export function storeFaults(store, proxies, ttlMs) {
  const own = Object.entries(store.faults).map(([kind, act]) => [
    kind,
    { ms: [100, 1_500], act, effects: store.effects?.[kind] },
  ]);
  if (proxies.length === 0) return Object.fromEntries(own);
  const network = (begin) => ({
    ms: [0.3 * ttlMs, 3 * ttlMs],
    async act(ms, [where, how]) {
      // Affects one process or all of them.
      const one = Math.floor(((where - 0.3) / 0.7) * proxies.length);
      const some = where < 0.3 ? proxies : [proxies[one]];
      for (const proxy of some) begin(proxy, how);
      await sleep(ms);
      for (const proxy of some) {
        // Data that was held back arrives late, or never.
        if (how < 0.5) proxy.reset();
        proxy.heal();
      }
      return where < 0.3 ? {} : { on: [one] };
    },
  });
  return {
    ...Object.fromEntries(own),
    "network slow": network((proxy, how) => proxy.delay(20 + how * ttlMs)),
    "requests cut off": network((proxy) => proxy.silence({ up: true })),
    "answers cut off": network((proxy) => proxy.silence({ down: true })),
    "network cut": network((proxy) => proxy.silence({ up: true, down: true })),
    "answers broken off": network((proxy, how) => proxy.halve(1 + Math.floor(how * 8))),
  };
}
