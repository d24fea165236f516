// Messages of the native side other than replies to operations: timers, questions and warnings.

import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { LONGEST_TIMER_MS } from "../../js/base/config.js";
import { recall } from "../../js/base/thrown.js";
import { createNativeBackend } from "../../js/native/backend.js";
import { listen, unlisten } from "../../js/native/bridge.js";
import { register } from "../../js/native/questions.js";
import { answer, calls, LOCK_ID, next, ready, reset, state } from "./fake-native.js";

vi.mock("../../js/native/addon.js", () => import("./fake-native.js"));

const make = () => createNativeBackend("fake", {}, undefined, { supportsFencing: true });
const settled = () => new Promise((resolve) => setImmediate(resolve));

beforeEach(() => {
  reset();
  make();
  calls.length = 0;
});
afterEach(() => void vi.useRealTimers());

describe("timers", () => {
  beforeEach(() => void vi.useFakeTimers());

  test("fire with JavaScript's timers, and the resulting replies are taken", () => {
    const heard = vi.fn();
    listen(81, heard);
    answer(0, "T5,100");
    vi.advanceTimersByTime(99);
    expect(calls).toEqual([]);
    ready.push([81, "B"], [81, "B"]);
    vi.advanceTimersByTime(1);
    expect(calls).toEqual([["fire", 5]]);
    expect(heard).toHaveBeenCalledTimes(2);
    unlisten(81);
  });

  test("do not fire once cleared, and leave nothing behind", () => {
    answer(0, "T5,100", 0, "T6,100", 0, "C5");
    expect(vi.getTimerCount()).toBe(1);
    vi.advanceTimersByTime(100);
    expect(calls).toEqual([["fire", 6]]);
    answer(0, "C5", 0, "C6");
    expect(vi.getTimerCount()).toBe(0);
  });

  test("may be longer than setTimeout allows", () => {
    answer(0, `T5,${LONGEST_TIMER_MS + 10}`);
    vi.advanceTimersByTime(LONGEST_TIMER_MS);
    expect(calls).toEqual([]);
    vi.advanceTimersByTime(10);
    expect(calls).toEqual([["fire", 5]]);
    answer(0, `T6,${LONGEST_TIMER_MS + 10}`);
    vi.advanceTimersByTime(LONGEST_TIMER_MS);
    answer(0, "C6");
    expect(vi.getTimerCount()).toBe(0);
  });

  test("do not keep the process alive, also if a test replaced setTimeout", () => {
    vi.useRealTimers();
    const timers = () =>
      process.getActiveResourcesInfo().filter((resource) => resource === "Timeout").length;
    const before = timers();
    answer(0, "T5,60000");
    expect(timers()).toBe(before);
    answer(0, "C5");
    // In a test environment that imitates a browser, timers are numbers.
    vi.stubGlobal("setTimeout", () => 7);
    answer(0, "T6,60000");
    vi.unstubAllGlobals();
  });
});

describe("questions", () => {
  const respond = (respondent) =>
    register({ describe: () => ({ code: "Internal" }), ...respondent });

  test("are answered under their number", async () => {
    const asked = vi.fn(async ({ op }) => ({ op }));
    const target = respond({ answer: asked });
    answer(0, `Q31,${target},{"op":"a,b"}`);
    await settled();
    expect(asked).toHaveBeenCalledExactlyOnceWith({ op: "a,b" });
    expect(calls).toEqual([["answer", 31, true, '{"op":"a,b"}']]);
  });

  test("an answer of undefined becomes null", async () => {
    answer(0, `Q31,${respond({ answer: () => undefined })},{}`);
    await settled();
    expect(calls).toEqual([["answer", 31, true, "null"]]);
  });

  test.each([
    [
      "throws",
      () => {
        throw "thing";
      },
    ],
    ["rejects", () => Promise.reject("thing")],
  ])(
    "a thrown value is described, and kept until its error has reached the caller: %s",
    async (_, fail) => {
      const describe = vi.fn(() => ({
        code: "RateLimited",
        message: "slow",
        outcomeUnknown: true,
      }));
      answer(0, `Q32,${register({ answer: fail, describe })},{"op":"acquire"}`);
      await settled();
      expect(describe).toHaveBeenCalledExactlyOnceWith("thing", { op: "acquire" });
      const [name, question, ok, json] = calls[0];
      expect([name, question, ok]).toEqual(["answer", 32, false]);
      const { thrown, ...failure } = JSON.parse(json);
      expect(failure).toEqual({ code: "RateLimited", message: "slow", outcomeUnknown: true });
      expect(recall(thrown).thing).toBe("thing");
      answer(0, `F${thrown}`);
      // A caller that is answered at the same moment may still need the value.
      await Promise.resolve();
      expect(recall(thrown).thing).toBe("thing");
      await settled();
      expect(recall(thrown).thing).toBeUndefined();
    },
  );

  test("an answer that cannot be serialized is a failure", async () => {
    const loop = {};
    loop.loop = loop;
    answer(0, `Q33,${respond({ answer: () => loop })},{}`);
    await settled();
    expect(calls[0].slice(0, 3)).toEqual(["answer", 33, false]);
  });

  test("to an unknown target are answered with an error", async () => {
    const never = 987_654;
    answer(0, `Q34,${never},{}`);
    await settled();
    const [, question, ok, json] = calls[0];
    expect([question, ok, JSON.parse(json)?.code]).toEqual([34, false, "Internal"]);
  });
});

describe("a backend that needs JavaScript", () => {
  test("replies that a call leaves are taken before its caller waits", async () => {
    state.takingReplies = true;
    const backend = make();
    const heard = vi.fn();
    listen(82, heard);
    next.push(41);
    ready.push([82, "B"], [41, "1"]);
    const locked = backend.isLocked({ key: "k" });
    expect(heard).toHaveBeenCalledTimes(1);
    expect(await locked).toBe(true);
    unlisten(82);
  });

  test("or in the next microtask, if nobody waits", async () => {
    state.takingReplies = true;
    const backend = make();
    const heard = vi.fn();
    listen(83, heard);
    next.push("1");
    ready.push([83, "B"]);
    const released = backend.release({ lockId: LOCK_ID });
    expect(heard).not.toHaveBeenCalled();
    await released;
    expect(heard).toHaveBeenCalledTimes(1);
    unlisten(83);
  });
});

test("a removed listener receives nothing", () => {
  const heard = vi.fn();
  listen(84, heard);
  answer(84, "B");
  unlisten(84);
  answer(84, "B");
  expect(heard).toHaveBeenCalledExactlyOnceWith("B");
});
