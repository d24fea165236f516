import { describe, expect, test } from "vitest";
import { generateLockId, lock, withTelemetry } from "../fixtures/api.js";
import { untilFree } from "../fixtures/wait.js";
import { hashOf } from "./setup.js";

export function telemetry(t) {
  describe.concurrent("telemetry", () => {
    const observe = async (options, opening = t.backend()) => {
      const events = [];
      const backend = withTelemetry(await opening, {
        onEvent: (event) => events.push(event),
        ...options,
      });
      return { backend, events };
    };

    test("one event per operation, with hashes and nothing raw", async () => {
      const { backend, events } = await observe();
      const key = t.key();
      const { lockId } = await backend.acquire({ key, ttlMs: 60_000 });
      await backend.acquire({ key, ttlMs: 60_000 });
      await backend.isLocked({ key });
      await backend.lookup({ key });
      await backend.lookup({ lockId });
      await backend.extend({ lockId, ttlMs: 60_000 });
      await backend.release({ lockId });
      await backend.release({ lockId });
      await backend.extend({ lockId, ttlMs: 60_000 });

      const keyHash = hashOf(key);
      const lockIdHash = hashOf(lockId);
      expect(events).toEqual([
        expect.objectContaining({ type: "acquire", keyHash, lockIdHash, result: "ok" }),
        expect.objectContaining({ type: "acquire", keyHash, result: "fail", reason: "locked" }),
        expect.objectContaining({ type: "isLocked", keyHash, result: "ok" }),
        expect.objectContaining({ type: "lookup", keyHash, result: "ok" }),
        expect.objectContaining({ type: "lookup", lockIdHash, result: "ok" }),
        expect.objectContaining({ type: "extend", lockIdHash, result: "ok" }),
        expect.objectContaining({ type: "release", lockIdHash, result: "ok" }),
        expect.objectContaining({
          type: "release",
          lockIdHash,
          result: "fail",
          reason: "not-found",
        }),
        expect.objectContaining({
          type: "extend",
          lockIdHash,
          result: "fail",
          reason: "not-found",
        }),
      ]);
      for (const event of events) {
        expect(event.backend).toBe(backend.capabilities.backend);
        expect(event.durationMs).toBeGreaterThan(0);
      }
      const text = JSON.stringify(events);
      expect(text).not.toContain(key);
      expect(text).not.toContain(lockId);
    });

    test("the reasons are those of a lock that never existed, and of one that expired", async () => {
      // The operations of other tests may remove expired locks.
      const { backend, events } = await observe({}, t.isolated());
      await backend.release({ lockId: generateLockId() });
      await backend.extend({ lockId: generateLockId(), ttlMs: 1000 });
      expect(events.map((event) => event.reason)).toEqual(["not-found", "not-found"]);

      const keys = [t.key(), t.key()];
      const [first, second] = await Promise.all(
        keys.map((key) => backend.acquire({ key, ttlMs: 1 })),
      );
      for (const key of keys) await untilFree(backend, key);
      events.length = 0;
      expect((await backend.release({ lockId: first.lockId })).ok).toBe(false);
      expect((await backend.extend({ lockId: second.lockId, ttlMs: 1000 })).ok).toBe(false);
      // A store that has already removed the lock cannot know that it expired.
      const reason = t.removedAtTtl ? "not-found" : "expired";
      expect(events.map((event) => event.reason)).toEqual([reason, reason]);
    });

    test("handles report events too", async () => {
      const { backend, events } = await observe();
      const first = await backend.acquire({ key: t.key(), ttlMs: 60_000 });
      await first.extend(60_000);
      await first.release();
      const second = await backend.acquire({ key: t.key(), ttlMs: 60_000 });
      await second[Symbol.asyncDispose]();
      expect(events.map((event) => `${event.type} ${event.result}`)).toEqual([
        "acquire ok",
        "extend ok",
        "release ok",
        "acquire ok",
        "release ok",
      ]);
    });

    test("lock() over a decorated backend reports its acquire and its release", async () => {
      const { backend, events } = await observe();
      await lock(backend, () => {}, { key: t.key() });
      expect(events.map((event) => `${event.type} ${event.result}`)).toEqual([
        "acquire ok",
        "release ok",
      ]);
    });

    test("includeRaw adds key and lockId, for all or for chosen events", async () => {
      const key = t.key();
      const all = await observe({ includeRaw: true });
      const { lockId } = await all.backend.acquire({ key, ttlMs: 60_000 });
      await all.backend.release({ lockId });
      expect(all.events[0]).toMatchObject({ type: "acquire", key, lockId });
      expect(all.events[1]).toMatchObject({ type: "release", lockId });

      const chosen = await observe({ includeRaw: (event) => event.type === "isLocked" });
      await chosen.backend.isLocked({ key });
      await chosen.backend.lookup({ key });
      expect(chosen.events[0].key).toBe(key);
      expect(chosen.events[1].key).toBeUndefined();
    });

    test("a callback or predicate that throws or rejects changes nothing", async () => {
      const boom = () => {
        throw new Error("boom");
      };
      const decorations = [
        { onEvent: boom },
        { onEvent: () => Promise.reject(new Error("boom")) },
        { onEvent: () => {}, includeRaw: boom },
      ];
      for (const options of decorations) {
        const backend = withTelemetry(await t.backend(), options);
        const key = t.key();
        const held = await backend.acquire({ key, ttlMs: 60_000 });
        expect(held.ok).toBe(true);
        expect(await backend.isLocked({ key })).toBe(true);
        expect((await held.release()).ok).toBe(true);
      }
    });

    test("a callback that never ends delays nobody", async () => {
      const { backend } = await observe({ onEvent: () => new Promise(() => {}) });
      const key = t.key();
      const held = await backend.acquire({ key, ttlMs: 60_000 });
      expect((await held.extend(60_000)).ok).toBe(true);
      expect(await backend.isLocked({ key })).toBe(true);
      expect(await backend.lookup({ key })).not.toBeNull();
      expect((await held.release()).ok).toBe(true);
      expect(await lock(backend, () => "done", { key })).toBe("done");
    });

    test("a predicate that throws reveals nothing", async () => {
      const { backend, events } = await observe({
        includeRaw: () => {
          throw new Error("boom");
        },
      });
      const key = t.key();
      await backend.isLocked({ key });
      expect(JSON.stringify(events)).not.toContain(key);
    });

    test("errors reach the caller unchanged", async () => {
      const { backend } = await observe();
      await expect(backend.acquire({ key: "", ttlMs: 1000 })).rejects.toMatchObject({
        name: "LockError",
        code: "InvalidArgument",
      });
    });

    test("a decorated backend keeps capabilities, and the original reports no events", async () => {
      const original = await t.backend();
      const { backend, events } = await observe();
      expect(backend.capabilities).toEqual(original.capabilities);
      await original.isLocked({ key: t.key() });
      expect(events).toEqual([]);
    });

    test("results are those of the original", async () => {
      const original = await t.backend();
      const { backend } = await observe();
      const key = t.key();
      const held = await backend.acquire({ key, ttlMs: 60_000 });
      expect(await backend.lookup({ key })).toEqual(await original.lookup({ key }));
      expect(held.fence).toBe("000000000000001");
      expect(Object.keys(await backend.release({ lockId: held.lockId }))).toEqual(["ok"]);
      expect(await backend.lookup({ key })).toBeNull();
    });
  });
}
