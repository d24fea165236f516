// The handle of a native backend's acquire(), and what it knows of its lock.

import { beforeEach, expect, test, vi } from "vitest";
import { createNativeBackend } from "../../js/native/backend.js";
import { answer, calls, GRANT, LOCK_ID, next, reset, state } from "./fake-native.js";

vi.mock("../../js/native/addon.js", () => import("./fake-native.js"));

const names = () => calls.map(([name]) => name);

let backend;
beforeEach(() => {
  reset();
  backend = createNativeBackend("fake", {}, undefined, { supportsFencing: true });
  calls.length = 0;
});

const acquire = (...replies) => {
  next.push(GRANT, ...replies);
  return backend.acquire({ key: "k", ttlMs: 30_000 });
};
const lost = { name: "LockError", code: "LockLost" };

test("isHeld() compares the validity with the native clock", async () => {
  const held = await acquire("1");
  state.now = 30_980;
  expect([held.isHeld(), held.isHeld(9), held.isHeld(10)]).toEqual([true, true, false]);
  held.throwIfLost();
  state.now = 30_990;
  expect(held.isHeld()).toBe(false);
  expect(() => held.throwIfLost()).toThrow(expect.objectContaining(lost));
  expect(names()).toEqual(["acquire"]);
});

test("a released lock is not held", async () => {
  const held = await acquire("1");
  await held.release();
  expect(held.isHeld()).toBe(false);
  expect(() => held.throwIfLost()).toThrow(/was released/);
  expect(held.signal.aborted).toBe(false);
  expect(names()).toEqual(["acquire", "release"]);
});

test("reading the signal sets an alarm, which aborts it in time", async () => {
  const held = await acquire(41);
  const { signal } = held;
  expect(held.signal).toBe(signal);
  expect(calls.slice(1)).toEqual([["alarm", 30_990]]);
  state.now = 30_990;
  answer(41, "Z");
  expect(signal.reason).toMatchObject(lost);
});

test("a signal that is read too late is already aborted", async () => {
  const held = await acquire();
  state.now = 30_990;
  expect(held.signal.reason).toMatchObject(lost);
  expect(names()).toEqual(["acquire"]);
});

test("an extension moves the alarm", async () => {
  const held = await acquire(42, "11700000060000,60000", 43);
  const { signal } = held;
  await held.extend(60_000);
  state.now = 30_990;
  answer(42, "Z");
  expect(signal.aborted).toBe(false);
  expect(calls.at(-1)).toEqual(["alarm", 60_000]);
  state.now = 60_000;
  answer(43, "Z");
  expect(signal.reason).toMatchObject(lost);
});

test("an extension that shortens the lease moves the alarm too", async () => {
  const held = await acquire(45, "11700000005000,5000", 46);
  const { signal } = held;
  await held.extend(4000);
  expect(calls.slice(-2)).toEqual([
    ["cancel", 45],
    ["alarm", 5000],
  ]);
  answer(45, "Z");
  expect(signal.aborted).toBe(false);
  state.now = 5000;
  answer(46, "Z");
  expect(signal.reason).toMatchObject(lost);
});

test("a release cancels the alarm and its listener", async () => {
  const held = await acquire(44, "1");
  const { signal } = held;
  await held.release();
  expect(calls.slice(-2)).toEqual([
    ["cancel", 44],
    ["release", LOCK_ID, "k"],
  ]);
  state.now = 99_999;
  answer(44, "Z");
  expect(signal.aborted).toBe(false);
});

test("the handle of a refused acquire was never held", async () => {
  next.push("L");
  const refused = await backend.acquire({ key: "k", ttlMs: 1 });
  expect(refused.isHeld()).toBe(false);
  expect(() => refused.throwIfLost()).toThrow(expect.objectContaining(lost));
  expect(refused.signal.reason).toMatchObject(lost);
  expect(await refused.release()).toEqual({ ok: false });
  expect(await refused.extend(5)).toEqual({ ok: false });
  await refused[Symbol.asyncDispose]();
  expect(names()).toEqual(["acquire"]);
});
