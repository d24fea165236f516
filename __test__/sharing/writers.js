// A writer among readers that come and go.

import { describe, expect, test } from "vitest";
import { NOISE_MS, until } from "../fixtures/wait.js";
import { now, toMs } from "../handover/process.js";
import { examine } from "./history.js";

const PROCESSES = 4;
const WORK_MS = 10;
const WRITES = 3;
/** A writer's turn comes within this time, and that of readers after a writer that does not come. */
const TURN_MS = 3_000;
const PATIENT = { acquisition: { timeoutMs: 60_000 } };

export function writers(t) {
  /** Returns whether a reader that does not wait is refused. */
  const isKeptOut = async (process, key) => {
    const probe = { name: "probe", key, mode: "shared" };
    if ((await process.take({ ...probe, waits: false })) === undefined) return true;
    await process.release(probe);
    return false;
  };

  describe("readers and writers", () => {
    test(`a writer gets its turn under ${t.readers} readers in a loop`, async () => {
      const [writer, ...readers] = await t.processes(1 + PROCESSES);
      const key = t.key();
      const reading = { lanes: t.readers / PROCESSES, workMs: WORK_MS, key, mode: "shared" };
      await Promise.all(readers.map((reader) => reader.begin({ ...reading, ...PATIENT })));
      const untilRead = async () => {
        const before = await Promise.all(readers.map((reader) => reader.done()));
        const isFurther = async (reader, index) => (await reader.done()) > before[index];
        await until(async () => {
          const further = await Promise.all(readers.map(isFurther));
          return further.every(Boolean);
        }, "each process to read");
      };
      const delays = [];
      const written = [];
      for (let write = 0; write < WRITES; write += 1) {
        await untilRead();
        const askedAt = now();
        const { takenAt, fence } = await writer.take({ name: "write", key, ...PATIENT });
        delays.push(toMs(takenAt - askedAt));
        const leftAt = now();
        written.push({ enteredAt: takenAt, leftAt, locks: [{ key, fence }] });
        await writer.release({ name: "write" });
      }
      await untilRead();
      const done = await Promise.all(readers.map((reader) => reader.finish({ stops: true })));
      const { violations } = examine([...done.flatMap(({ records }) => records), ...written]);
      expect(violations).toEqual([]);
      expect(Math.max(...delays)).toBeLessThan(TURN_MS + NOISE_MS);
    }, 90_000);

    /** Readers continue after a writer that waits for its turn in vain. `end(writer)` ends its wait. */
    async function continueAfter(end) {
      const [holder, reader, writer] = await t.processes(3);
      const key = t.key();
      await holder.take({ name: "read", key, mode: "shared", ttlMs: 60_000 });
      const writing = writer.take({ name: "write", key, ...PATIENT });
      writing.catch(() => {});
      await until(() => isKeptOut(reader, key), "the writer to keep readers out");
      const reading = reader.take({ name: "read", key, mode: "shared", ...PATIENT });
      const endedAt = now();
      await end(writer);
      const { takenAt, slot } = await reading;
      expect(slot).toBe(1);
      expect(toMs(takenAt - endedAt)).toBeLessThan(TURN_MS + NOISE_MS);
      expect(await isKeptOut(reader, key)).toBe(false);
      expect(await holder.isHeld({ name: "read" })).toBe(true);
    }

    test("readers continue when a writer gives up", () =>
      continueAfter((writer) => writer.abort({ name: "write" })));

    test("readers continue when a writer that waits is killed", () =>
      continueAfter((writer) => writer.kill()));
  });
}
