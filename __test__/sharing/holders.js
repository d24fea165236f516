// Several processes share a key: how many hold it at a time, and with which slots.

import { describe, expect, test } from "vitest";
import { examine } from "./history.js";

const PROCESSES = 4;
const LANES = 4;
const WORK_MS = 10;
const PATIENT = { acquisition: { timeoutMs: 100_000 } };

/** Runs a kind of work in each process, and returns what all of them recorded. */
export async function workTogether(processes, works) {
  await Promise.all(processes.map((process, index) => process.begin(works[index])));
  const done = await Promise.all(processes.map((process) => process.finish()));
  return done.flatMap(({ records }) => records);
}

export function holders(t) {
  const works = (key, shares) =>
    shares.map((share) => ({
      ...{ lanes: LANES, rounds: t.rounds, workMs: WORK_MS, key },
      ...PATIENT,
      ...share,
    }));

  describe(`${PROCESSES} processes`, () => {
    test("never more holders than the limit, each with a slot of its own", async () => {
      const processes = await t.processes(PROCESSES);
      const key = t.key();
      const shares = processes.map(() => ({ concurrency: 3 }));
      const records = await workTogether(processes, works(key, shares));
      expect(records).toHaveLength(PROCESSES * LANES * t.rounds);
      const { violations, most } = examine(records);
      expect(violations).toEqual([]);
      expect(most).toBeGreaterThan(1);
      expect(await t.backend.isLocked({ key })).toBe(false);
    }, 120_000);

    test("limits that differ, readers and exclusive holders of one key", async () => {
      const processes = await t.processes(PROCESSES);
      const key = t.key();
      const shares = [{ concurrency: 2 }, { concurrency: 5 }, { mode: "shared" }, {}];
      const records = await workTogether(processes, works(key, shares));
      expect(records).toHaveLength(PROCESSES * LANES * t.rounds);
      const { violations, most } = examine(records);
      expect(violations).toEqual([]);
      expect(most).toBeGreaterThan(1);
      expect(await t.backend.isLocked({ key })).toBe(false);
    }, 120_000);

    test("a limit that is lowered while others hold: no new holder until enough have left", async () => {
      const [before, after] = await t.processes(2);
      const key = t.key();
      for (const name of ["a", "b", "c", "d"]) await before.take({ name, key, concurrency: 4 });
      const waiting = after.take({ name: "next", key, concurrency: 2, ...PATIENT });
      const isRefused = async () =>
        (await after.take({ name: "probe", key, concurrency: 2, waits: false })) === undefined;
      for (const name of ["a", "b", "c"]) {
        expect(await isRefused()).toBe(true);
        await before.release({ name });
      }
      // One of the old holders is left.
      expect(await waiting).toMatchObject({ slot: 0 });
      expect(await isRefused()).toBe(true);
      expect(await before.isHeld({ name: "d" })).toBe(true);
    });
  });
}
