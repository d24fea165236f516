// Backends by URL, and the default backend of lock().

import { afterEach, describe, expect, test, vi } from "vitest";
import { createBackend, createLock, lock } from "../../js/index.js";
import { createLock as createMemoryLock, createMemoryBackend } from "../../js/memory.js";
import { rejection } from "./support.js";

afterEach(() => vi.unstubAllEnvs());

describe("createBackend", () => {
  test.each(["memory:", "MEMORY:", "memory://"])("%s", async (url) => {
    const backend = createBackend(url);
    expect(backend.capabilities.backend).toBe("memory");
    await backend[Symbol.asyncDispose]();
    expect((await rejection(backend.isLocked({ key: "k" }))).message).toContain("closed");
  });

  test("accepts a URL object, and the backend's options", () => {
    expect(createBackend(new URL("memory:")).capabilities.backend).toBe("memory");
    expect(() => createBackend("memory:", { disposeTimeoutMs: -1 })).toThrow(/disposeTimeoutMs/);
  });

  test.each([1, {}, "", "memory", "http://user:hunter2@host", "toString:", "/a/path"])(
    "refuses %o and names the known schemes, not the value",
    (url) => {
      const schemes = ["redis:", "rediss:", "postgres:", "postgresql:", "firestore:", "sqlite:"];
      const error = (() => {
        try {
          return createBackend(url);
        } catch (thrown) {
          return thrown;
        }
      })();
      expect(error).toMatchObject({ name: "LockError", code: "InvalidArgument" });
      for (const scheme of [...schemes, "memory:"]) expect(error.message).toContain(scheme);
      expect(error.message).not.toContain("hunter2");
    },
  );
});

describe("lock() without a backend", () => {
  test("uses SYNCGUARD_URL, the same backend each time", async () => {
    vi.stubEnv("SYNCGUARD_URL", "memory:");
    const config = { key: "k", acquisition: { maxRetries: 0 } };
    const inner = await lock(() => rejection(lock(() => {}, config)), config);
    expect(inner.code).toBe("AcquisitionTimeout");
    expect(await lock(({ fence }) => fence, config)).toBe("000000000000002");
  });

  test("rejects if it is not a URL of a backend", async () => {
    vi.stubEnv("SYNCGUARD_URL", "nonsense:");
    expect(await rejection(lock(() => {}, { key: "k" }))).toMatchObject({
      name: "LockError",
      code: "InvalidArgument",
    });
  });
});

test("createLock binds lock() to a backend of its own", async () => {
  const first = createLock("memory:");
  const second = createMemoryLock();
  const config = { key: "k", acquisition: { maxRetries: 0 } };
  const result = await first(
    () => second(() => first(() => {}, config).catch((e) => e.code), config),
    config,
  );
  expect(result).toBe("AcquisitionTimeout");
});

test("createMemoryBackend accepts its options as the first or second argument", () => {
  const nothing = { disposeTimeoutMs: 0, onReleaseError: null, clock: undefined };
  for (const args of [[], [{}], [null, null], [undefined, nothing], ["memory:", {}]]) {
    expect(createMemoryBackend(...args).capabilities).toEqual({
      backend: "memory",
      supportsFencing: true,
      timeAuthority: "server",
    });
  }
  for (const args of [
    [{ onReleaseError: 1 }],
    [undefined, { onReleaseError: 1 }],
    [undefined, "options"],
    [undefined, []],
    [{ operationTimeoutMs: 0 }],
  ]) {
    expect(() => createMemoryBackend(...args)).toThrow(
      expect.objectContaining({ code: "InvalidArgument" }),
    );
  }
});

test("createMemoryBackend runs on the system's clock or on JavaScript's", () => {
  for (const clock of ["system", "javascript"]) createMemoryBackend({ clock });
  for (const clock of ["sundial", "", null, 5, Date]) {
    expect(() => createMemoryBackend({ clock })).toThrow(
      expect.objectContaining({
        code: "InvalidArgument",
        message: 'clock must be "system" or "javascript"',
      }),
    );
  }
});

test("the function that createLock returns can be closed", async () => {
  for (const close of ["close", Symbol.asyncDispose]) {
    const bound = createMemoryLock();
    expect(await bound(() => 1, { key: "k" })).toBe(1);
    await bound[close]();
    expect((await rejection(bound(() => 1, { key: "k" }))).message).toContain("closed");
  }
});

test("syncguard/common exports lock() too", async () => {
  expect((await import("../../js/common.js")).lock).toBe(lock);
});
