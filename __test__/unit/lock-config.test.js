// The config of lock() and similar functions: every field, and near misses.

import { describe, expect, test, vi } from "vitest";
import { hold, lead, lock, tryHold, tryLock } from "../../js/index.js";
import { rejection, scripted } from "./support.js";

const FORMS = {
  lock: (backend, config) => lock(backend, () => {}, config),
  tryLock: (backend, config) => tryLock(backend, () => {}, config),
  lead: (backend, config) => lead(backend, () => {}, config),
  hold: async (backend, config) => (await hold(backend, config)).release(),
  tryHold: async (backend, config) => (await tryHold(backend, config)).release(),
};

const { signal } = new AbortController();
const ms = [-1, NaN, "5", null, {}, 5n];
const GOOD = {
  ttlMs: [60_000, 2 ** 40],
  signal: [signal],
  autoExtend: [true, false],
  maxHoldMs: [60_000, 60_000.5, Infinity],
  minHoldMs: [0, 1, Infinity],
  throwIfLost: [true, false],
  name: ["", "report"],
  onReleaseError: [() => {}, null],
  onEvent: [() => {}, null],
  acquisition: [{}],
};
const WRONG = {
  key: ["", 7, null, ["k"], "x".repeat(513)],
  ttlMs: [0, 1.5, -1, Infinity, NaN, "5", null],
  signal: [null, {}, 1, "signal"],
  autoExtend: [1, "yes", null],
  maxHoldMs: [0, ...ms],
  minHoldMs: ms,
  throwIfLost: [1, "yes", null],
  name: [1, null, Symbol("n"), {}],
  onReleaseError: [1, "log"],
  onEvent: [1, "log"],
  acquisition: [null, 1, "fast"],
};
const GOOD_ACQUISITION = {
  maxRetries: [0, 7, Infinity],
  retryDelayMs: [0, 0.5, 7],
  maxDelayMs: [0, 0.5, 7, Infinity],
  timeoutMs: [0, 0.5, 7, Infinity],
  backoff: ["exponential", "fixed"],
  jitter: ["none", "equal", "full"],
  signal: [signal],
};
const WRONG_ACQUISITION = {
  maxRetries: [-1, 1.5, NaN, "5", null],
  retryDelayMs: [Infinity, ...ms],
  maxDelayMs: ms,
  timeoutMs: ms,
  backoff: ["linear", "", null, 1],
  jitter: ["some", "toString", null, 1],
  signal: [null, {}, 1],
};

const fields = (values) =>
  Object.entries(values).flatMap(([name, each]) => each.map((value) => [name, value]));

describe.each(Object.entries(FORMS))("%s", (_, form) => {
  const refused = async (config, text) => {
    const backend = scripted();
    const error = await rejection(form(backend, config));
    expect(error).toMatchObject({ name: "LockError", code: "InvalidArgument" });
    if (text !== undefined) expect(error.message).toContain(text);
    expect(backend.calls).toEqual([]);
  };

  test("accepts every field", async () => {
    for (const [name, value] of fields(GOOD)) {
      await form(scripted(), { key: "k", [name]: value });
      await form(scripted(), { key: "k", [name]: undefined });
    }
    for (const [name, value] of fields(GOOD_ACQUISITION)) {
      await form(scripted(), { key: "k", acquisition: { [name]: value } });
      await form(scripted(), { key: "k", acquisition: { [name]: undefined } });
    }
  });

  test("refuses a wrong value of every field, and names the field", async () => {
    for (const [name, value] of fields(WRONG)) {
      await refused({ key: "k", [name]: value }, name === "key" ? "Key" : name);
    }
    for (const [name, value] of fields(WRONG_ACQUISITION)) {
      await refused({ key: "k", acquisition: { [name]: value } }, name);
    }
  });

  test.each([
    ["ttl", "ttlMs"],
    ["TTLMs", "ttlMs"],
    ["autoextend", "autoExtend"],
    ["auto_extend", "autoExtend"],
    ["maxHold", "maxHoldMs"],
    ["minHold", "minHoldMs"],
    ["throwIflost", "throwIfLost"],
    ["onReleaseErr", "onReleaseError"],
    ["aquisition", "acquisition"],
    ["singal", "signal"],
    ["Name", "name"],
  ])("refuses %s, and names %s", async (name, meant) => {
    const text = `Unknown option "${name}": did you mean "${meant}"?`;
    for (const value of [1, undefined]) await refused({ key: "k", [name]: value }, text);
  });

  test.each([
    ["timeout", "timeoutMs"],
    ["maxRetires", "maxRetries"],
    ["retryDelay", "retryDelayMs"],
    ["maxDelay", "maxDelayMs"],
    ["backOff", "backoff"],
    ["Jitter", "jitter"],
  ])("refuses acquisition.%s, and names %s", (name, meant) =>
    refused(
      { key: "k", acquisition: { [name]: 1 } },
      `Unknown option "acquisition.${name}": did you mean "acquisition.${meant}"?`,
    ),
  );

  test("ignores unknown fields that resemble no option", async () => {
    const own = { tag: 1, id: 2, date: 3, job: 4, tenant: 5, [Symbol("ttl")]: 6 };
    await form(scripted(), { key: "k", ...own, acquisition: { ...own } });
    await form(scripted(), Object.create({ key: "k", tag: 1 }));
  });

  test("refuses a config that cannot be read, with the reason", async () => {
    for (const config of [undefined, null]) await refused(config, "in place of its options");
    const cause = new Error("getter");
    for (const name of ["key", "name", "maxHoldMs", "acquisition"]) {
      const hostile = Object.defineProperty({ key: "k" }, name, {
        get() {
          throw cause;
        },
      });
      const error = await rejection(form(scripted(), hostile));
      expect(error).toMatchObject({ code: "InvalidArgument", cause });
    }
  });

  test("makes no request if a signal is already aborted", async () => {
    const aborted = AbortSignal.abort("why");
    for (const config of [
      { key: "k", signal: aborted },
      { key: "k", acquisition: { signal: aborted } },
    ]) {
      const backend = scripted();
      expect(await rejection(form(backend, config))).toMatchObject({
        ...{ code: "Aborted", cause: "why", context: { key: "k" } },
      });
      expect(backend.calls).toEqual([]);
    }
  });
});

test("null for a callback counts as not given", async () => {
  vi.stubEnv("NODE_ENV", "test");
  const log = vi.spyOn(console, "error").mockImplementation(() => {});
  const backend = scripted({ release: () => Promise.reject(new Error("down")) });
  await lock(backend, () => {}, { key: "k", onReleaseError: null, onEvent: null });
  expect(log).toHaveBeenCalledTimes(1);
  log.mockRestore();
  vi.unstubAllEnvs();
});
