// Small helpers for fences, time, results and configuration.

import { inspect } from "node:util";
import { afterEach, describe, expect, test, vi } from "vitest";
import {
  attachRawData,
  BACKEND_DEFAULTS,
  calculateRedisServerTimeMs,
  delay,
  FAILURE_REASON,
  FENCE_THRESHOLDS,
  formatFence,
  hasFence,
  isLive,
  LOCK_DEFAULTS,
  logFenceWarning,
  mapBackendObservation,
  mapFirestoreConditions,
  mapRedisScriptResult,
  mapToMutationResult,
  mergeAcquisitionConfig,
  mergeBackendConfig,
  sanitizeLockInfo,
  hashKey,
} from "../../js/common.js";
import { readHooks } from "../../js/base/config.js";
import { failure } from "../../js/native/results.js";
import { readGrant } from "../../js/native/replies.js";

const invalid = expect.objectContaining({ code: "InvalidArgument" });

afterEach(() => vi.restoreAllMocks());

describe("fences", () => {
  test("formatFence pads numbers and bigints to 15 digits", () => {
    expect(formatFence(1)).toBe("000000000000001");
    expect(formatFence(0)).toBe("000000000000000");
    expect(formatFence(-0)).toBe("000000000000000");
    expect(formatFence(999_999_999_999_999n)).toBe("999999999999999");
  });

  test.each([
    ["Fence must be non-negative", [-1, -1n]],
    ["Fence exceeds 15-digit limit", [1e15, 2 ** 60, 10n ** 15n]],
    ["Fence must be a whole number", [42.9, -0.5, NaN, Infinity, "1", null, undefined, {}]],
  ])("%s", (text, values) => {
    for (const value of values) {
      expect(() => formatFence(value)).toThrow(invalid);
      expect(() => formatFence(value)).toThrow(text);
    }
  });

  test("hasFence", () => {
    expect(hasFence({ ok: true, fence: "000000000000001" })).toBe(true);
    expect(hasFence({ ok: true })).toBe(false);
    expect(hasFence({ ok: false, reason: "locked" })).toBe(false);
    expect(hasFence(undefined)).toBe(false);
  });

  test("a fence above the threshold warns without the key, and one at the threshold does not", () => {
    const warn = vi.spyOn(console, "warn").mockImplementation(() => {});
    const grant = (fence) => `A${"i".repeat(22)}${fence}1700000000000,7,3,250`;
    expect(readGrant(grant(FENCE_THRESHOLDS.WARN), "the-key")).toEqual({
      lockId: "i".repeat(22),
      fence: FENCE_THRESHOLDS.WARN,
      expiresAtMs: 1_700_000_000_000,
      rest: "7,3,250",
    });
    expect(warn).not.toHaveBeenCalled();
    readGrant(grant("090000000000001"), "the-key");
    expect(warn).toHaveBeenCalledTimes(1);
    logFenceWarning("090000000000001", "the-key");
    for (const [text] of warn.mock.calls) {
      expect(text).toMatch(/^\[SyncGuard\] Fence counter approaching limit/);
      expect(text).not.toContain("the-key");
    }
    logFenceWarning(90_000_000_000_001);
    expect(warn).toHaveBeenLastCalledWith(expect.stringContaining("90000000000001"));
  });
});

describe("time", () => {
  test("isLive counts a lock as dead beyond the tolerance", () => {
    expect(isLive(1000, 1999, 1000)).toBe(true);
    expect(isLive(1000, 2000, 1000)).toBe(false);
  });

  test("calculateRedisServerTimeMs reads the reply of TIME", () => {
    expect(calculateRedisServerTimeMs(["1700000000", "123999"])).toBe(1_700_000_000_123);
    expect(calculateRedisServerTimeMs([1_700_000_000, 0])).toBe(1_700_000_000_000);
    for (const wrong of [undefined, null, "1", [], ["a", "b"]]) {
      expect(() => calculateRedisServerTimeMs(wrong)).toThrow(invalid);
    }
  });

  test("delay waits for the given time", async () => {
    vi.useFakeTimers();
    try {
      const done = vi.fn();
      const waiting = delay(50).then(done);
      await vi.advanceTimersByTimeAsync(49);
      expect(done).not.toHaveBeenCalled();
      await vi.advanceTimersByTimeAsync(1);
      await waiting;
      expect(done).toHaveBeenCalled();
    } finally {
      vi.useRealTimers();
    }
  });
});

describe("what a release or extend found", () => {
  test.each([
    [1, "succeeded"],
    [0, "ownership-mismatch"],
    [-1, "never-existed"],
    [-2, "observable-expired"],
    [7, "ambiguous-unknown"],
    [NaN, "ambiguous-unknown"],
    ["1", "ambiguous-unknown"],
    [null, "ambiguous-unknown"],
    [undefined, "ambiguous-unknown"],
  ])("the script's code %o means %s", (code, condition) => {
    expect(mapRedisScriptResult(code)).toBe(condition);
    expect(mapBackendObservation(code)).toBe(condition);
  });

  test.each([
    [false, false, false, "never-existed"],
    [false, true, true, "never-existed"],
    [true, false, true, "ownership-mismatch"],
    [true, false, false, "ownership-mismatch"],
    [true, true, false, "observable-expired"],
    [true, true, true, "succeeded"],
  ])("document %s, ours %s, live %s: %s", (documentExists, ownershipValid, live, condition) => {
    const conditions = { documentExists, ownershipValid, isLive: live };
    expect(mapFirestoreConditions(conditions)).toBe(condition);
    expect(mapBackendObservation(conditions)).toBe(condition);
  });

  test.each([
    ["succeeded", { ok: true }],
    ["observable-expired", { ok: false, reason: "expired" }],
    ["never-existed", { ok: false, reason: "not-found" }],
    ["cleaned-up-after-expiry", { ok: false, reason: "not-found" }],
    ["ownership-mismatch", { ok: false, reason: "not-found" }],
    ["ambiguous-unknown", { ok: false, reason: "not-found" }],
    ["something else", { ok: false, reason: "not-found" }],
  ])("%s becomes %o", (condition, result) => {
    expect(mapToMutationResult(condition)).toEqual(result);
  });
});

describe("results", () => {
  test("the reason of a failure is attached under a symbol, not enumerable", () => {
    expect(FAILURE_REASON.description).toBe("failureReason");
    const result = failure("expired");
    expect(result[FAILURE_REASON]).toEqual({ reason: "expired" });
    expect(Reflect.ownKeys({ ...result })).toEqual(["ok"]);
    expect(inspect(result)).toBe("{ ok: false }");
    expect(Reflect.ownKeys(failure())).toEqual(["ok"]);
  });

  test("sanitizeLockInfo shows hashes, and the fence if there are fences", () => {
    const raw = { key: "k", lockId: "id", expiresAtMs: 2, acquiredAtMs: 1, fence: "1" };
    const shown = {
      keyHash: hashKey("k"),
      lockIdHash: hashKey("id"),
      expiresAtMs: 2,
      acquiredAtMs: 1,
    };
    expect(sanitizeLockInfo(raw, { supportsFencing: true })).toEqual({ ...shown, fence: "1" });
    expect(sanitizeLockInfo(raw, { supportsFencing: false })).toEqual(shown);
  });

  test("raw data is attached, not enumerable", () => {
    const info = attachRawData({ a: 1 }, { key: "k", lockId: "id" });
    expect(info[Symbol.for("syncguard.rawData")]).toEqual({ key: "k", lockId: "id" });
    expect(Reflect.ownKeys({ ...info })).toEqual(["a"]);
    expect(JSON.stringify(info) + inspect(info)).not.toContain("id");
  });
});

describe("configuration", () => {
  test("defaults replace undefined and nothing else", () => {
    expect(mergeBackendConfig()).toEqual(BACKEND_DEFAULTS);
    expect(mergeBackendConfig({ ttlMs: undefined, key: "k" })).toEqual({ ttlMs: 30_000, key: "k" });
    expect(mergeBackendConfig({ ttlMs: 0 })).toEqual({ ttlMs: 0 });
    expect(mergeAcquisitionConfig()).toEqual(LOCK_DEFAULTS);
    expect(LOCK_DEFAULTS).toEqual({
      ...{ maxRetries: 10, retryDelayMs: 100, timeoutMs: 5_000 },
      ...{ backoff: "exponential", jitter: "equal" },
    });
    expect(mergeAcquisitionConfig({ maxRetries: 0, jitter: "none" })).toEqual({
      ...LOCK_DEFAULTS,
      maxRetries: 0,
      jitter: "none",
    });
  });

  test("the options that all backends share are checked", () => {
    const onReleaseError = () => {};
    expect(readHooks(undefined)).toEqual({});
    expect(readHooks({ onReleaseError, disposeTimeoutMs: 5, other: 1 })).toEqual({
      onReleaseError,
      disposeTimeoutMs: 5,
    });
    const none = { onReleaseError: undefined, disposeTimeoutMs: undefined };
    expect(readHooks(none)).toEqual(none);
    expect(readHooks({ onReleaseError: null, disposeTimeoutMs: 0 })).toEqual(none);
    for (const wrong of [
      null,
      { onReleaseError: 1 },
      { onReleaseError: 0 },
      { disposeTimeoutMs: -1 },
      { disposeTimeoutMs: NaN },
      { disposeTimeoutMs: "5" },
    ]) {
      expect(() => readHooks(wrong)).toThrow(invalid);
    }
    const cause = new Error("getter");
    const hostile = Object.defineProperty({}, "onReleaseError", {
      get() {
        throw cause;
      },
    });
    expect(() => readHooks(hostile)).toThrow(
      expect.objectContaining({ code: "InvalidArgument", cause }),
    );
  });
});
