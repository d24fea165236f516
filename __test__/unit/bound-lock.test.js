// The function that createLock() returns: lock() bound to a backend, with the other forms as its
// methods.

import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { createLock } from "../../js/index.js";
import * as firestore from "../../js/firestore.js";
import * as memory from "../../js/memory.js";
import * as postgres from "../../js/postgres.js";
import * as redis from "../../js/redis.js";
import * as sqlite from "../../js/sqlite.js";

const METHODS = ["tryLock", "hold", "tryHold", "lead", "close", Symbol.asyncDispose];

test.each([
  ["syncguard", () => createLock("memory:")],
  ["syncguard/redis", () => redis.createLock("redis://127.0.0.1:1")],
  ["syncguard/postgres", () => postgres.createLock("postgres://u@127.0.0.1:1/d")],
  ["syncguard/firestore", () => firestore.createLock("firestore://p?emulatorHost=127.0.0.1:1")],
  ["syncguard/sqlite", () => sqlite.createLock("/nowhere/locks.db")],
  ["syncguard/memory", () => memory.createLock()],
])("createLock of %s has every form", async (_, create) => {
  const lock = create();
  for (const name of METHODS) expect(lock[name], String(name)).toBeTypeOf("function");
  await lock.close();
});

describe("its methods", () => {
  const key = "k";
  let lock;
  beforeEach(() => {
    lock = memory.createLock();
  });
  afterEach(() => lock.close());

  test("use one backend, and can be destructured", async () => {
    const { tryLock, hold, tryHold, lead } = lock;
    const held = await hold({ key });
    expect(held.fence).toBe("000000000000001");
    expect(await tryLock(() => 1, { key })).toEqual({ ok: false, reason: "locked" });
    expect(await tryHold({ key })).toBeNull();
    const waiting = lead(({ fence }) => fence, { key });
    await held.release();
    expect(await waiting).toBe("000000000000002");
    expect(await tryLock(({ fence }) => fence, { key })).toEqual({
      ok: true,
      value: "000000000000003",
    });
    expect(await lock(({ fence }) => fence, { key })).toBe("000000000000004");
    await (await tryHold({ key })).release();
  });

  test("check their arguments as the functions do", async () => {
    await expect(lock.hold({ Key: key })).rejects.toThrow('did you mean "key"');
    await expect(lock.tryLock(undefined, { key })).rejects.toMatchObject({
      code: "InvalidArgument",
    });
    await expect(lock.lead(() => {}, {})).rejects.toThrow("Key must be a string");
  });

  test("fail after it is closed", async () => {
    const fn = vi.fn();
    const held = await lock.hold({ key });
    const waiting = lock.lead(fn, { key }).catch((error) => error);
    await lock.close({ timeoutMs: 0 });
    expect(await waiting).toMatchObject({ name: "LockError" });
    expect(fn).not.toHaveBeenCalled();
    expect(held.isHeld()).toBe(false);
    await expect(lock.tryHold({ key })).rejects.toThrow(/closed/);
  });
});
