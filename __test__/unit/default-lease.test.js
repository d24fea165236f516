// Tests how long a lock lasts without a ttlMs. The heartbeats are the engine's own, on simulated time.

import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { hold, lock, tryHold, tryLock, withTelemetry } from "../../js/index.js";
import { createMemoryBackend } from "../../js/memory.js";
import { scripted } from "./support.js";

const LONG_MS = 100_000;
const key = "report:daily";

beforeEach(() => {
  vi.useFakeTimers();
  vi.spyOn(process, "emitWarning").mockImplementation(() => {});
});
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

/** Runs each form for longer than the default lease. Resolves to whether the lock was held to the end. */
const FORMS = {
  lock: (backend, config) => lock(backend, outlast, config),
  tryLock: async (backend, config) => (await tryLock(backend, outlast, config)).value,
  hold: (backend, config) => useAndRelease(hold(backend, config)),
  tryHold: (backend, config) => useAndRelease(tryHold(backend, config)),
};

async function outlast({ isHeld }) {
  await vi.advanceTimersByTimeAsync(LONG_MS);
  return isHeld();
}

async function useAndRelease(holding) {
  const held = await holding;
  const wasHeld = await outlast(held);
  await held.release();
  return wasHeld;
}

const open = () => createMemoryBackend({ clock: "javascript" });
const BACKENDS = {
  "a backend": open,
  "a decorated backend": () => withTelemetry(open(), { onEvent: () => {} }),
};

describe.each(Object.entries(BACKENDS))("%s", (_, make) => {
  test.each(Object.entries(FORMS))(
    "%s without ttlMs lasts as long as the work",
    async (_, form) => {
      const backend = make();
      expect(await form(backend, { key })).toBe(true);
      expect(await backend.isLocked({ key })).toBe(false);
    },
  );

  test.each(Object.entries(FORMS))("%s with ttlMs ends after that time", async (_, form) => {
    expect(await form(make(), { key, ttlMs: 30_000 })).toBe(false);
  });

  test.each(Object.entries(FORMS))("%s: autoExtend decides if it is given", async (_, form) => {
    expect(await form(make(), { key, autoExtend: false })).toBe(false);
    expect(await form(make(), { key, ttlMs: 30_000, autoExtend: true })).toBe(true);
  });
});

test("the lease is 30 s: a key is free again soon after its process has died", async () => {
  const backend = open();
  const held = await hold(backend, { key });
  expect(held.expiresAtMs).toBe(Date.now() + 30_000);
  await held.release();
});

test.each(Object.entries(FORMS))("%s on a custom backend sends no heartbeat", async (_, form) => {
  const backend = scripted();
  expect(await form(backend, { key })).toBe(false);
  expect(backend.names()).not.toContain("extend");
});
