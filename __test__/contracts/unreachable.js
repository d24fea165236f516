// A lock does not end when JavaScript no longer refers to it.

import { describe, expect, test } from "vitest";
import { hold } from "../fixtures/api.js";
import { collectGarbage } from "../fixtures/gc.js";
import { until } from "../fixtures/wait.js";

const TTL_MS = 3000;

export function unreachable(t) {
  if (!t.shared) return;

  describe.concurrent("a lock whose handle and backend are unreachable", () => {
    test("is kept alive", async () => {
      const backend = await t.backend();
      const key = t.key();
      const { lockId, expiresAtMs } = await holdAndForget({ key, ttlMs: TTL_MS, autoExtend: true });
      // Waits for longer than the lock would last without a heartbeat, and than a release would take.
      await until(async () => {
        await collectGarbage();
        const info = await backend.lookup({ lockId });
        expect(info).not.toBeNull();
        return info.expiresAtMs > expiresAtMs + TTL_MS;
      }, "heartbeats after its handle was collected");
      await backend.release({ lockId });
    });

    test("is not released before its time", async () => {
      const backend = await t.backend();
      const key = t.key();
      const { lockId, expiresAtMs } = await holdAndForget({ key, ttlMs: TTL_MS });
      let seen = 0;
      await until(async () => {
        await collectGarbage();
        const info = await backend.lookup({ lockId });
        if (info !== null) seen++;
        return info === null;
      }, "it to expire");
      expect(seen).toBeGreaterThan(0);
      expect(Date.now()).toBeGreaterThanOrEqual(expiresAtMs - TTL_MS / 10);
    });
  });

  /** Acquires the lock in a function of its own, so that nothing refers to the handle or the backend. */
  async function holdAndForget(config) {
    const { lockId, expiresAtMs } = await hold(await t.forgotten(), config);
    return { lockId, expiresAtMs };
  }
}
