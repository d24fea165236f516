// What the coordinator for node-cron does with one run, and what node-cron does when it fails.

import cron from "node-cron";
import oldestCron from "node-cron4.4";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { LockError } from "../../js/index.js";
import { createMemoryBackend } from "../../js/memory.js";
import { createRunCoordinator } from "../../js/node-cron.js";
import { createRedisBackend } from "../../js/redis.js";
import { testFolder } from "../sqlite/folder.js";

const folder = testFolder();
const LEASE_MS = 30_000;

/** node-cron's name of a run that was scheduled so long ago. */
const run = (agoMs = 0, name = "report") => `${name}:${new Date(Date.now() - agoMs).toISOString()}`;

describe("one run", () => {
  let acquired, granted;
  const backend = () => ({
    ...createMemoryBackend(),
    acquire: async ({ key, ttlMs }) => {
      acquired.push({ key, ttlMs });
      return granted();
    },
  });
  beforeEach(() => {
    acquired = [];
    granted = () => ({ ok: true });
  });

  test("is elected by a lock on the name of its task and its minute and second", async () => {
    vi.setSystemTime("2026-05-01T12:34:56.000Z");
    const { shouldRun } = createRunCoordinator(backend());
    expect(await shouldRun("report: daily:2026-05-01T12:34:56.000Z", LEASE_MS)).toBe(true);
    vi.setSystemTime("2026-05-01T13:34:56.000Z");
    expect(await shouldRun("report: daily:2026-05-01T13:34:56.000Z", LEASE_MS)).toBe(true);
    const lock = { key: "cron:report: daily:34:56", ttlMs: LEASE_MS };
    expect(acquired).toEqual([lock, lock]);
  });
  afterEach(() => vi.useRealTimers());

  test("is not elected while its lock is held", async () => {
    granted = () => ({ ok: false, reason: "locked" });
    expect(await createRunCoordinator(backend()).shouldRun(run(), LEASE_MS)).toBe(false);
  });

  test.each([
    ["the task's lease", {}, 60_000, 60_000],
    ["minHoldMs if that is longer", { minHoldMs: 90_000 }, 60_000, 90_000],
    ["the task's lease if that is longer", { minHoldMs: 500 }, 60_000, 60_000],
    ["30 s by default", {}, 1, 30_000],
    ["half an hour at most, because keys repeat", {}, 86_400_000, 1_800_000],
  ])("is remembered for %s", async (_, options, leaseMs, ttlMs) => {
    await createRunCoordinator(backend(), options).shouldRun(run(), leaseMs);
    expect(acquired).toEqual([expect.objectContaining({ ttlMs })]);
  });

  test("is skipped if it is so late that another process may have done it", async () => {
    const { shouldRun } = createRunCoordinator(backend());
    const late = expect.objectContaining({
      code: "AcquisitionTimeout",
      message: expect.stringMatching(/^This run is 1[56]\d{3} ms late and its lock lasts 30000 ms/),
    });
    await expect(shouldRun(run(15_001), LEASE_MS)).rejects.toEqual(late);
    expect(acquired).toEqual([]);
    granted = () => {
      vi.setSystemTime(Date.now() + 15_001); // the store took so long
      return { ok: true };
    };
    await expect(shouldRun(run(), LEASE_MS)).rejects.toEqual(late);
    expect(acquired).toHaveLength(1);
  });

  test("of a name that is no date is elected once too", async () => {
    const { shouldRun } = createRunCoordinator(createMemoryBackend());
    expect(await shouldRun("what a later version calls it", LEASE_MS)).toBe(true);
    expect(await shouldRun("what a later version calls it", LEASE_MS)).toBe(false);
  });
});

describe("its backend", () => {
  test("is closed with the coordinator if it was opened with a URL; the run stays taken", async () => {
    const url = `sqlite:${folder.file()}`;
    const first = createRunCoordinator(url);
    const later = run();
    expect(await first.shouldRun(later, LEASE_MS)).toBe(true);
    await first.close();
    await expect(first.shouldRun(run(), LEASE_MS)).rejects.toBeInstanceOf(LockError);
    const second = createRunCoordinator(url);
    expect(await second.shouldRun(later, LEASE_MS)).toBe(false);
    await second[Symbol.asyncDispose]();
  });

  test("stays open if it is the program's own", async () => {
    const backend = createMemoryBackend();
    await createRunCoordinator(backend).close();
    expect(await backend.isLocked({ key: "k" })).toBe(false);
  });

  test("is the default one without arguments", async () => {
    const coordinator = createRunCoordinator();
    const once = run(0, crypto.randomUUID());
    expect(await coordinator.shouldRun(once, LEASE_MS)).toBe(true);
    expect(await coordinator.shouldRun(once, LEASE_MS)).toBe(false);
    await coordinator.close();
  });

  test.each([
    [[undefined], /The URL of the backend is undefined/],
    [["nosql://host"], /This URL names no backend/],
    [[{}], /needs a URL/],
    [["memory:", { minHold: 5 }], /Unknown option "minHold": did you mean "minHoldMs"\?/],
    [["memory:", { minHoldMs: 0 }], /minHoldMs must be an integer from 1 to 1800000/],
    [["memory:", { minHoldMs: 1_800_001 }], /minHoldMs must be an integer/],
    [["memory:", null], /must be an object/],
  ])("refuses %j", (args, message) => {
    expect(() => createRunCoordinator(...args)).toThrow(
      expect.objectContaining({ code: "InvalidArgument", message: expect.stringMatching(message) }),
    );
  });
});

describe.each([
  ["the current node-cron", cron],
  ["the oldest", oldestCron],
])("%s", (_, { schedule }) => {
  test("skips a run if the store cannot be reached, and its event and log say why", async () => {
    const options = { connectTimeoutMs: 100, operationTimeoutMs: 100 };
    const backend = createRedisBackend("redis://127.0.0.1:1", options);
    const errors = [];
    const ran = vi.fn();
    const task = schedule("* * * * * *", ran, {
      name: "report",
      distributed: true,
      runCoordinator: createRunCoordinator(backend),
      logger: { info() {}, warn() {}, debug() {}, error: (text, error) => errors.push(error) },
    });
    const [{ reason }] = await new Promise((resolve) =>
      task.on("execution:skipped", (...args) => resolve(args)),
    );
    await task.destroy();
    expect(reason).toBe("coordinator-error");
    expect(errors[0]).toBeInstanceOf(LockError);
    expect(errors[0]).toMatchObject({ code: "ServiceUnavailable" });
    expect(ran).not.toHaveBeenCalled();
    await backend.close();
  });
});
