// Fences, time, result mappings, configuration: small pure helpers.

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
import { readGrant } from "../../js/native/backend.js";

const invalid = expect.objectContaining({ code: "InvalidArgument" });

afterEach(() => vi.restoreAllMocks());

describe("fences", () => {
  test("formatFence pads numbers and bigints to 15 digits", () => {
    expect(formatFence(1)).toBe("000000000000001");
    expect(formatFence(0)).toBe("000000000000000");
    expect(formatFence(-0)).toBe("000000000000000");
    expect(formatFence(999_999_999_999_999n)).toBe("999999999999999");
  });

  test.each([-1, -1n, 1e15, 10n ** 15n, 1.5, NaN, Infinity, "1", null, undefined, {}])(
    "formatFence refuses %o",
    (value) => expect(() => formatFence(value)).toThrow(invalid),
  );

  test("hasFence", () => {
    expect(hasFence({ ok: true, fence: "000000000000001" })).toBe(true);
    expect(hasFence({ ok: true })).toBe(false);
    expect(hasFence({ ok: false, reason: "locked" })).toBe(false);
    expect(hasFence(undefined)).toBe(false);
  });

  test("a grant above the threshold warns, without the key; one at it does not", () => {
    const warn = vi.spyOn(console, "warn").mockImplementation(() => {});
    const grant = (fence) => `A${"i".repeat(22)}${fence}1700000000000,29999`;
    expect(readGrant(grant(FENCE_THRESHOLDS.WARN), "the-key")).toEqual({
      lockId: "i".repeat(22),
      fence: FENCE_THRESHOLDS.WARN,
      expiresAtMs: 1_700_000_000_000,
      validForMs: 29_999,
    });
    expect(warn).not.toHaveBeenCalled();
    readGrant(grant("090000000000001"), "the-key");
    expect(warn).toHaveBeenCalledTimes(1);
    logFenceWarning("090000000000001", "the-key");
    for (const [text] of warn.mock.calls) {
      expect(text).toMatch(/^\[SyncGuard\] Fence counter approaching limit/);
      expect(text).not.toContain("the-key");
    }
  });
});

describe("time", () => {
  test("isLive: beyond the tolerance a lock is dead", () => {
    expect(isLive(1000, 1999, 1000)).toBe(true);
    expect(isLive(1000, 2000, 1000)).toBe(false);
  });

  test("Redis' clock", () => {
    expect(calculateRedisServerTimeMs(["1700000000", "123999"])).toBe(1_700_000_000_123);
    expect(calculateRedisServerTimeMs([1_700_000_000, 0])).toBe(1_700_000_000_000);
    for (const wrong of [undefined, null, "1", [], ["a", "b"]]) {
      expect(() => calculateRedisServerTimeMs(wrong)).toThrow(invalid);
    }
  });

  test("delay waits as long as it is told, and no longer", async () => {
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

describe("results", () => {
  test.each([
    ["succeeded", undefined],
    ["expired", "expired"],
    ["not-found", "not-found"],
    ["mismatch", "not-found"],
    ["unknown", undefined],
  ])("the observation %s has the reason %s", (observation, reason) => {
    expect(mapBackendObservation(observation)).toBe(reason);
    const result = mapToMutationResult(observation);
    expect(result).toEqual({ ok: observation === "succeeded" });
    expect(result[FAILURE_REASON]?.reason).toBe(reason);
  });

  test("an unheard-of observation is refused", () => {
    expect(() => mapToMutationResult("maybe")).toThrow(invalid);
  });

  test("the reason is out of sight", () => {
    const result = mapToMutationResult("expired");
    expect(Reflect.ownKeys({ ...result })).toEqual(["ok"]);
    expect(inspect(result)).toBe("{ ok: false }");
  });

  test("an extend's success tells the expiry", () => {
    expect(mapToMutationResult("succeeded", 123)).toEqual({ ok: true, expiresAtMs: 123 });
    expect(mapToMutationResult("expired", 123)).toEqual({ ok: false });
  });

  test.each([
    [1, "succeeded"],
    [[1, 1_700_000_000_000], "succeeded"],
    [0, "mismatch"],
    [-1, "not-found"],
    [-2, "expired"],
    ["-2", "expired"],
    [7, "unknown"],
    [undefined, "unknown"],
  ])("the script result %o is %s", (result, observation) => {
    expect(mapRedisScriptResult(result)).toBe(observation);
  });

  test.each([
    [false, false, false, "not-found"],
    [true, false, true, "mismatch"],
    [true, false, false, "mismatch"],
    [true, true, false, "expired"],
    [true, true, true, "succeeded"],
  ])("document %s, ours %s, live %s: %s", (documentExists, ownershipValid, live, observation) => {
    const conditions = { documentExists, ownershipValid, isLive: live };
    expect(mapFirestoreConditions(conditions)).toBe(observation);
  });

  test("sanitizeLockInfo shows hashes, and the fence where there are fences", () => {
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

  test("raw data is attached out of sight", () => {
    const info = attachRawData({ a: 1 }, { key: "k", lockId: "id" });
    expect(info[Symbol.for("syncguard.rawData")]).toEqual({ key: "k", lockId: "id" });
    expect(Reflect.ownKeys({ ...info })).toEqual(["a"]);
    expect(JSON.stringify(info) + inspect(info)).not.toContain("id");
  });
});

describe("configuration", () => {
  test("defaults fill what is undefined and nothing else", () => {
    expect(mergeBackendConfig()).toEqual(BACKEND_DEFAULTS);
    expect(mergeBackendConfig({ ttlMs: undefined, key: "k" })).toEqual({ ttlMs: 30_000, key: "k" });
    expect(mergeBackendConfig({ ttlMs: 0 })).toEqual({ ttlMs: 0 });
    expect(mergeAcquisitionConfig()).toEqual(LOCK_DEFAULTS);
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
    for (const wrong of [
      null,
      { onReleaseError: 1 },
      { onReleaseError: null },
      { disposeTimeoutMs: 0 },
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
