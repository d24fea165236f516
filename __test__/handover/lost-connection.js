// The connection for notifications breaks: waiters are notified all the same.

import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { NOISE_MS } from "../fixtures/wait.js";
import { toMs } from "./process.js";
import { ONLY_WHEN_TOLD, untilWaiting } from "./setup.js";

/** The time for a new connection, after some attempts. */
const RECONNECTED_MS = 3_000;

export function lostConnection(t) {
  describe("the connection for notifications is cut", () => {
    const begin = async () => {
      const [holder, waiter] = await t.processes(2);
      const key = t.key();
      await holder.take({ key });
      const waiting = waiter.wait({ key, ...ONLY_WHEN_TOLD });
      await untilWaiting();
      return { holder, key, waiting };
    };

    test.each([0, 5, 50])("%i ms before the release", async (earlierMs) => {
      const { holder, key, waiting } = await begin();
      await t.store.cutWatchers();
      await sleep(earlierMs);
      const freeAt = await holder.release({ key });
      const { ranAt, failed } = await waiting;
      expect(failed).toBe(undefined);
      expect(toMs(ranAt - freeAt)).toBeLessThan(RECONNECTED_MS);
    });

    test("several times, and restored before the release", async () => {
      const { holder, key, waiting } = await begin();
      for (let time = 0; time < 3; time++) {
        await t.store.cutWatchers();
        await t.store.untilWatched();
      }
      await untilWaiting();
      const freeAt = await holder.release({ key });
      const { ranAt, failed } = await waiting;
      expect(failed).toBe(undefined);
      expect(toMs(ranAt - freeAt)).toBeLessThan(NOISE_MS);
    });

    test("with the server, which starts again", async () => {
      const { holder, key, waiting } = await begin();
      await t.store.restart();
      // A server that forgets has freed it already.
      const freeAt = await holder.release({ key });
      const { ranAt, failed } = await waiting;
      expect(failed).toBe(undefined);
      expect(toMs(ranAt - freeAt)).toBeLessThan(RECONNECTED_MS);
    });
  });
}
