// Telemetry of waits, heartbeats and losses: events of the engine, not of single operations.

import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { hold, lead, lock, tryLock, withTelemetry } from "../fixtures/api.js";
import { ALL_FORMS, FORMS } from "../fixtures/forms.js";
import { aborted, turn, until } from "../fixtures/wait.js";
import { hashOf, rejection } from "./setup.js";

const PATIENT = { maxRetries: 1_000_000, retryDelayMs: 5, backoff: "fixed", timeoutMs: 600_000 };
const OBSERVING = [
  ["withTelemetry", (backend, onEvent) => [withTelemetry(backend, { onEvent }), {}]],
  ["onEvent", (backend, onEvent) => [backend, { onEvent }]],
];

const told = (events) => events.map(({ type, result }) => `${type} ${result}`);

export function events(t) {
  // The tests mostly wait for the clock, so together they take as long as the longest of them.
  describe.concurrent("events of a hold", () => {
    const observe = async (how = OBSERVING[0][1]) => {
      const events = [];
      const [backend, config] = how(await t.backend(), (event) => events.push(event));
      return { backend, events, config, key: t.key() };
    };

    test.each(ALL_FORMS)(
      "%s: an acquire and a release, with their measurements and the name",
      async (form) => {
        const { backend, events, key } = await observe();
        const use = async ({ lockId }) => (await sleep(50), lockId);
        const lockId = await FORMS[form](backend, { key, name: "reports" }, use);
        expect(told(events)).toEqual(["acquire ok", "release ok"]);
        const [acquired, released] = events;
        for (const event of events) {
          expect(event).toMatchObject({
            keyHash: hashOf(key),
            lockIdHash: hashOf(lockId),
            backend: backend.capabilities.backend,
            name: "reports",
            durationMs: expect.any(Number),
          });
        }
        expect(acquired.attempts).toBe(1);
        expect(acquired.waitMs).toBeLessThanOrEqual(acquired.durationMs + 1);
        expect(released.heldMs).toBeGreaterThanOrEqual(45);
        expect(JSON.stringify(events)).not.toContain(key);
        expect(JSON.stringify(events)).not.toContain(lockId);
      },
    );

    test.each(OBSERVING)(
      "%s: a wait has one acquire event, however many attempts it makes",
      async (_, how) => {
        const { backend, events, config, key } = await observe(how);
        const holder = await (await t.backend()).acquire({ key, ttlMs: 600_000 });
        // Connect first: connecting may take longer than the lock is held below.
        await tryLock(backend, () => {}, { key });
        events.length = 0;
        const waiting = lock(backend, () => {}, { key, acquisition: PATIENT, ...config });
        await sleep(200);
        expect(events).toEqual([]);
        await holder.release();
        await waiting;
        expect(told(events)).toEqual(["acquire ok", "release ok"]);
        expect(events[0].attempts).toBeGreaterThan(1);
        expect(events[0].waitMs).toBeGreaterThan(150);
        expect(events[0].durationMs).toBeGreaterThan(150);
      },
    );

    test("a wait without success has the reason why it ended", async () => {
      const { backend, events, key } = await observe();
      const holder = await (await t.backend()).acquire({ key, ttlMs: 600_000 });
      const acquisition = { ...PATIENT, maxRetries: 2 };
      await rejection(lock(backend, () => {}, { key, name: "n", acquisition }));
      await tryLock(backend, () => {}, { key });
      const controller = new AbortController();
      const cancelled = { key, signal: controller.signal, acquisition: PATIENT };
      const waiting = rejection(hold(backend, cancelled));
      await turn();
      controller.abort();
      await waiting;
      const keyHash = hashOf(key);
      expect(events).toEqual([
        expect.objectContaining({
          ...{ type: "acquire", result: "fail", reason: "locked", code: "AcquisitionTimeout" },
          ...{ keyHash, name: "n", durationMs: expect.any(Number) },
        }),
        expect.objectContaining({ type: "acquire", result: "fail", reason: "locked", keyHash }),
        expect.objectContaining({ type: "acquire", result: "fail", code: "Aborted", keyHash }),
      ]);
      expect(events[1].code).toBeUndefined();
      expect(events[2].reason).toBeUndefined();
      await holder.release();
    });

    test.each(OBSERVING)("%s: each heartbeat has an event", async (_, how) => {
      const { backend, events, config, key } = await observe(how);
      const given = { key, ttlMs: 3_000, autoExtend: true, name: "beating", ...config };
      await lock(
        backend,
        ({ signal }) => until(() => signal.aborted || events.length >= 3, "two heartbeats"),
        given,
      );
      const heartbeats = events.filter(({ type }) => type === "heartbeat");
      expect(told(events)).toEqual([
        "acquire ok",
        ...heartbeats.map(() => "heartbeat ok"),
        "release ok",
      ]);
      expect(heartbeats.length).toBeGreaterThanOrEqual(2);
      expect(heartbeats[0]).toMatchObject({ keyHash: hashOf(key), name: "beating" });
      const count = events.length;
      // Waits for longer than the time between two heartbeats.
      await sleep(1_500);
      expect(events).toHaveLength(count);
    });

    test.each(OBSERVING)(
      "%s: a loss has an event when it happens, even if nobody asks",
      async (_, how) => {
        const { backend, events, config, key } = await observe(how);
        // There is no heartbeat, so only the clock shows the loss. The function does not look at it.
        const given = { key, ttlMs: 200, name: "late", ...config };
        await lock(backend, () => until(() => events.length >= 2, "the loss"), given);
        // A lost lock is released in the background.
        await until(() => events.length >= 3, "the release");
        expect(told(events)).toEqual(["acquire ok", "lost fail", "release " + events[2].result]);
        expect(events[1]).toMatchObject({ code: "LockLost", keyHash: hashOf(key), name: "late" });
      },
    );

    test("a loss that a heartbeat finds has an event", async () => {
      const { backend, events, key } = await observe();
      const held = await hold(backend, { key, ttlMs: 900, autoExtend: true });
      const other = t.shared ? await t.another() : await t.backend();
      await other.release({ lockId: held.lockId });
      expect((await aborted(held.signal)).code).toBe("LockLost");
      await held.release();
      const types = told(events).filter((each) => each !== "heartbeat ok");
      expect(types.filter((each) => each !== "heartbeat fail")).toEqual([
        "acquire ok",
        "lost fail",
        "release fail",
      ]);
      expect(events.at(-1).reason).toBe("not-found");
    });

    test("an extension by the holder has an event", async () => {
      const { backend, events, key } = await observe();
      await lock(backend, ({ extend }) => extend(60_000), { key, name: "n" });
      expect(told(events)).toEqual(["acquire ok", "extend ok", "release ok"]);
      const durationMs = expect.any(Number);
      expect(events[1]).toMatchObject({ name: "n", keyHash: hashOf(key), durationMs });
    });

    test("each term of a leader has events", async () => {
      const { backend, events, key } = await observe();
      let terms = 0;
      await lead(
        backend,
        async ({ lockId, signal }) => {
          if (++terms === 2) return;
          await (await t.backend()).release({ lockId });
          await aborted(signal);
        },
        { key, ttlMs: 900, acquisition: { retryDelayMs: 5, backoff: "fixed" } },
      );
      // The next term does not wait for the release of the lost lock.
      await until(() => told(events).includes("release fail"), "the release of the first term");
      const others = told(events).filter((each) => !/^heartbeat|^release fail/.test(each));
      expect(others).toEqual(["acquire ok", "lost fail", "acquire ok", "release ok"]);
    });

    test("a backend that is decorated twice reports each event to both callbacks", async () => {
      const outer = [];
      const { backend, events, key } = await observe();
      const twice = withTelemetry(backend, { onEvent: (event) => outer.push(event) });
      await lock(twice, () => {}, { key });
      expect(told(events)).toEqual(["acquire ok", "release ok"]);
      expect(told(outer)).toEqual(["acquire ok", "release ok"]);
    });

    test("a callback that throws changes nothing", async () => {
      const backend = withTelemetry(await t.backend(), {
        onEvent: () => {
          throw new Error("boom");
        },
      });
      const key = t.key();
      const config = { key, ttlMs: 3_000, autoExtend: true, throwIfLost: true };
      await lock(backend, () => sleep(3_500), config);
      expect(await backend.isLocked({ key })).toBe(false);
    });
  });
}
