// Processes that are killed while they share a key, or while they take several keys.

import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { size } from "../fixtures/size.js";
import { NOISE_MS, until } from "../fixtures/wait.js";
import { now, toMs } from "../handover/process.js";

const TTL_MS = 3_000;
const VICTIMS = size(4, 40);
const KEYS = 6;
/** Within this time a victim is in every phase of a set: taking it, holding it, releasing it. */
const MOST_MS = 300;
const PATIENT = { acquisition: { timeoutMs: 60_000 } };

export function deaths(t) {
  /** How long a killed holder's lock may be seen. */
  const goneMs = TTL_MS + t.toleranceMs + NOISE_MS;

  describe("kill -9", () => {
    test("a holder's slot is free when its own lease ends, and only its own", async () => {
      const [victim, other, waiter] = await t.processes(3);
      const share = { key: t.key(), concurrency: 2, ttlMs: TTL_MS, autoExtend: true };
      const { slot, lockId } = await victim.take({ name: "share", ...share });
      await other.take({ name: "share", ...share });
      const waiting = waiter.take({ name: "share", ...share, ...PATIENT });
      // Longer than the TTL: the waiter gets nothing as long as the holders live.
      await sleep(TTL_MS + t.toleranceMs);
      const killedAt = now();
      await victim.kill();
      // None if the machine was so busy that the lease had ended before.
      const { expiresAtMs = 0 } = (await t.backend.lookup({ lockId })) ?? {};
      const taken = await waiting;
      expect(taken.slot).toBe(slot);
      expect(toMs(taken.takenAt - killedAt)).toBeLessThan(goneMs);
      // Both clocks are those of this host.
      expect(taken.takenAtMs).toBeGreaterThanOrEqual(expiresAtMs - 1);
      expect(await other.isHeld({ name: "share" })).toBe(true);
      expect((await t.backend.lookup({ key: share.key })).holders).toBe(2);
    });

    test(`in the middle of sets of keys, ${VICTIMS} times: nothing is left after the TTL`, async () => {
      const kill = async () => {
        const someKeysOf = Array.from({ length: KEYS }, () => t.key());
        const [victim] = await t.processes(1);
        await victim.begin({ lanes: 2, workMs: 1, someKeysOf, ttlMs: TTL_MS, ...PATIENT });
        await until(async () => (await victim.done()) > 0, "the first set");
        await sleep(Math.random() * MOST_MS);
        await victim.kill();
        const killedAt = now();
        for (const key of someKeysOf) {
          await until(async () => !(await t.backend.isLocked({ key })), "the key to be free");
        }
        return toMs(now() - killedAt);
      };
      const delays = [];
      for (let left = VICTIMS; left > 0; left -= 4) {
        const some = Array.from({ length: Math.min(4, left) }, kill);
        delays.push(...(await Promise.all(some)));
      }
      expect(Math.max(...delays)).toBeLessThan(goneMs);
    }, 300_000);

    test("while it waits for the rest of a set: what it had is free, and others keep theirs", async () => {
      const [victim, other] = await t.processes(2);
      const keys = ["a", "b", "c"].map((name) => `${t.key()}:${name}`).sort();
      await other.take({ name: "busy", key: keys[1], ttlMs: 60_000 });
      const waiting = victim.take({ name: "set", keys, ttlMs: TTL_MS, ...PATIENT });
      waiting.catch(() => {});
      const isLocked = (key) => t.backend.isLocked({ key });
      const areLocked = async () => (await Promise.all(keys.map(isLocked))).join();
      // The first attempt takes the last key, too, until it is known that the one before is busy.
      await until(async () => (await areLocked()) === "true,true,false", "the wait to begin");
      await victim.kill();
      const killedAt = now();
      await until(async () => (await areLocked()) === "false,true,false", "what it had to be free");
      expect(toMs(now() - killedAt)).toBeLessThan(goneMs);
      expect(await other.isHeld({ name: "busy" })).toBe(true);
    });
  });
}
