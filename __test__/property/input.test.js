// Any value for any field leads to LockError("InvalidArgument"), or to a valid success. It never leads to another
// error, to a synchronous exception of a function that returns a promise, or to a hang.

import fc from "fast-check";
import { afterAll, describe, expect, test } from "vitest";
import {
  LockError,
  acquireHandle,
  createBackend,
  createMemoryBackend,
  forceRelease,
  generateLockId,
  getById,
  getByIdRaw,
  getByKey,
  getByKeyRaw,
  hold,
  lead,
  listLocks,
  lock,
  lookupDebug,
  owns,
  tryHold,
  tryLock,
  withTelemetry,
} from "../fixtures/api.js";
import { createCustomBackend } from "../fixtures/custom-backend.js";
import { size } from "../fixtures/size.js";
import { Box, anything, fields } from "./arbitraries.js";

const RUNS = { numRuns: size(300, 1000) };
const backend = createMemoryBackend();
afterAll(() => backend.close());

const lockId = generateLockId();
const { signal } = new AbortController();

/**
 * Returns the outcome of a call: "ok", or the code of its LockError. A signal that is already aborted is a
 * legal value too, and leads to "Aborted".
 */
async function outcome(call, isSuccess, alsoLegal = []) {
  const promise = call();
  expect(promise).toBeInstanceOf(Promise);
  try {
    const value = await promise;
    expect(isSuccess(value)).toBe(true);
    return "ok";
  } catch (error) {
    if (!(error instanceof LockError)) throw error;
    expect(["InvalidArgument", "Aborted", ...alsoLegal]).toContain(error.code);
    expect(error.message.length).toBeGreaterThan(10);
    return error.code;
  }
}

const isMutation = (value) => typeof value.ok === "boolean";
const isInfo = (value) => value === null || typeof value.keyHash === "string";
const isBoolean = (value) => typeof value === "boolean";

const OPERATIONS = {
  acquire: [{ key: "k", ttlMs: 1, signal }, isMutation],
  release: [{ lockId, signal }, isMutation],
  extend: [{ lockId, ttlMs: 1, signal }, isMutation],
  isLocked: [{ key: "k", signal }, isBoolean],
  lookup: [{ key: "k", lockId, signal }, isInfo],
};

describe.each(Object.entries(OPERATIONS))("%s", (name, [good, isSuccess]) => {
  test("any fields", async () => {
    const seen = new Set();
    await fc.assert(
      fc.asyncProperty(fields(good), async (options) => {
        seen.add(await outcome(() => backend[name](options.open()), isSuccess));
      }),
      RUNS,
    );
    expect([...seen]).toContain("InvalidArgument");
    expect([...seen]).toContain("ok");
  });

  test("any value instead of options", async () => {
    await fc.assert(
      fc.asyncProperty(anything, async (options) => {
        await outcome(() => backend[name](options.open()), isSuccess);
      }),
      RUNS,
    );
  });

  test("any fields, with telemetry", async () => {
    const observed = withTelemetry(backend, { onEvent: () => {}, includeRaw: true });
    await fc.assert(
      fc.asyncProperty(fc.oneof(fields(good), anything), async (options) => {
        await outcome(() => observed[name](options.open()), isSuccess);
      }),
      RUNS,
    );
  });
});

describe("handles", () => {
  test("extend and release", async () => {
    await fc.assert(
      fc.asyncProperty(anything, anything, async (ttlMs, anySignal) => {
        const held = await backend.acquire({ key: "handle", ttlMs: 60_000 });
        expect(held.ok).toBe(true);
        await outcome(() => held.extend(ttlMs.open(), anySignal.open()), isMutation);
        await outcome(() => held.release(anySignal.open()), isMutation);
        await held[Symbol.asyncDispose]();
        expect(await backend.isLocked({ key: "handle" })).toBe(false);
      }),
      RUNS,
    );
  });

  test("acquireHandle", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.oneof(fc.constant(new Box(backend)), anything),
        fields({ key: "k", ttlMs: 1 }),
        async (given, options) => {
          await outcome(() => acquireHandle(given.open(), options.open()), isMutation);
        },
      ),
      RUNS,
    );
  });
});

describe("lock()", () => {
  const acquisition = fields({
    maxRetries: 1,
    retryDelayMs: 1,
    maxDelayMs: 1,
    timeoutMs: 1000,
    backoff: "fixed",
    jitter: "none",
    signal,
  });
  const config = fc.oneof(
    fields({ key: "k", ttlMs: 1000, signal, onReleaseError: () => {}, autoExtend: true }),
    fields({ key: "k", maxHoldMs: 1000, minHoldMs: 0, throwIfLost: false, name: "n" }),
    fc
      .oneof(acquisition, anything)
      .map((given) => new Box({ key: "k", acquisition: given.open() })),
    anything,
  );
  const isDone = (value) => value === "done";

  const MAKERS = {
    "a native backend": createMemoryBackend,
    "a hand-made one": createCustomBackend,
  };
  // A lock of a millisecond may expire before its grant arrives. Then it counts as not acquired.
  const NOT_HAD = { ok: false };
  const isTried = ({ ok, value }) => !ok || isDone(value);
  // Each function with a check of its success.
  const FORMS = {
    lock: [(own, config) => lock(own, () => "done", config), isDone],
    tryLock: [(own, config) => tryLock(own, () => "done", config), isTried],
    lead: [(own, config) => lead(own, () => "done", config), isDone],
    hold: [async (own, config) => (await hold(own, config)).release(), isMutation],
    tryHold: [
      async (own, config) => (await tryHold(own, config))?.release() ?? NOT_HAD,
      isMutation,
    ],
  };
  const CASES = Object.entries(FORMS).flatMap(([name, form]) =>
    Object.entries(MAKERS).map(([kind, make]) => [name, kind, make, ...form]),
  );
  test.each(CASES)("%s: any config, over %s", async (_, _kind, make, form, isSuccess) => {
    const seen = new Set();
    await fc.assert(
      fc.asyncProperty(config, async (given) => {
        // The backend is new, so nobody holds the key and no call waits.
        const own = make();
        // A timeoutMs of 0 is valid and times out at once. A tiny maxHoldMs loses the lock.
        const call = () => form(own, given.open());
        seen.add(await outcome(call, isSuccess, ["AcquisitionTimeout", "LockLost"]));
        await own.close();
      }),
      RUNS,
    );
    expect([...seen]).toContain("InvalidArgument");
    expect([...seen]).toContain("ok");
  });

  test("any value instead of the function or the backend", async () => {
    await fc.assert(
      fc.asyncProperty(anything, async (box) => {
        const given = box.open();
        if (typeof given !== "function") {
          const noFunction = () => lock(backend, given, { key: "fn" });
          expect(await outcome(noFunction, () => false)).toBe("InvalidArgument");
        }
        const noBackend = () => lock(given, () => {}, { key: "fn" });
        expect(await outcome(noBackend, () => false)).toBe("InvalidArgument");
      }),
      RUNS,
    );
  });
});

describe("listing and releasing by force", () => {
  const drained = async (listing) => {
    const found = [];
    for await (const info of listing) found.push(info);
    return found;
  };

  test("listLocks", async () => {
    const options = fc.oneof(fields({ limit: 5, raw: true, signal }), anything);
    await fc.assert(
      fc.asyncProperty(options, anything, async (given, other) => {
        await outcome(() => drained(listLocks(backend, given.open())), Array.isArray);
        await outcome(
          () => drained(listLocks(other.open(), {})),
          () => false,
        );
      }),
      RUNS,
    );
  });

  test("forceRelease", async () => {
    const options = fc.oneof(fields({ key: "k", signal }), anything);
    await fc.assert(
      fc.asyncProperty(options, anything, async (given, other) => {
        await outcome(() => forceRelease(backend, given.open()), isMutation);
        await outcome(
          () => forceRelease(other.open(), { key: "k" }),
          () => false,
        );
      }),
      RUNS,
    );
  });
});

describe("helpers", () => {
  const HELPERS = { getByKey, getById, getByKeyRaw, getByIdRaw };
  test.each(Object.entries(HELPERS))("%s", async (_, helper) => {
    await fc.assert(
      fc.asyncProperty(anything, fc.oneof(fields({ signal }), anything), async (value, options) => {
        await outcome(() => helper(backend, value.open(), options.open()), isInfo);
        await outcome(
          () => helper(value.open(), "key", options.open()),
          () => false,
        );
      }),
      RUNS,
    );
  });

  test("owns and lookupDebug", async () => {
    await fc.assert(
      fc.asyncProperty(anything, fields({ key: "k", lockId }), async (value, query) => {
        await outcome(() => owns(backend, value.open()), isBoolean);
        await outcome(
          () => owns(value.open(), lockId),
          () => false,
        );
        await outcome(() => lookupDebug(backend, query.open()), isInfo);
        await outcome(() => lookupDebug(backend, value.open()), isInfo);
      }),
      RUNS,
    );
  });
});

describe("constructors", () => {
  const opens = (open) => {
    try {
      return open();
    } catch (error) {
      if (!(error instanceof LockError)) throw error;
      expect(error.code).toBe("InvalidArgument");
      return undefined;
    }
  };

  test("createMemoryBackend", async () => {
    const options = fields({
      onReleaseError: () => {},
      disposeTimeoutMs: 1000,
      operationTimeoutMs: 1000,
    });
    await fc.assert(
      fc.asyncProperty(fc.oneof(options, anything), async (given) => {
        const opened = opens(() => createMemoryBackend(given.open()));
        if (opened) {
          const held = await opened.acquire({ key: "k", ttlMs: 1000 });
          await held[Symbol.asyncDispose]();
          expect(await opened.isLocked({ key: "k" })).toBe(false);
          await opened.close();
        }
      }),
      RUNS,
    );
  });

  test("createBackend with any text as its URL", async () => {
    const scheme = fc.constantFrom(
      "memory:",
      "memory://x",
      "Memory:",
      "nope:",
      "http://",
      "",
      ":",
      "//",
    );
    const text = fc.tuple(scheme, fc.string({ unit: "binary" })).map((parts) => parts.join(""));
    const url = fc.oneof(
      text.map((value) => new Box(value)),
      anything,
    );
    await fc.assert(
      fc.asyncProperty(url, anything, async (given, options) => {
        await opens(() => createBackend(given.open(), options.open()))?.close();
      }),
      RUNS,
    );
  });

  test("withTelemetry", () => {
    fc.assert(
      fc.property(anything, anything, (given, options) => {
        opens(() => withTelemetry(given.open(), { onEvent: () => {} }));
        opens(() => withTelemetry(backend, options.open()));
      }),
      RUNS,
    );
  });
});
