// The diagnostic helpers over custom backends.

import { describe, expect, test } from "vitest";
import {
  attachRawData,
  getById,
  getByIdRaw,
  getByKey,
  getByKeyRaw,
  lookupDebug,
  owns,
} from "../../js/index.js";
import { LOCK_ID, rejection, scripted } from "./support.js";

const info = () => ({ keyHash: "a", lockIdHash: "b", expiresAtMs: 2, acquiredAtMs: 1, fence: "1" });
const raw = { key: "k", lockId: LOCK_ID };
const holding = () => scripted({ lookup: async () => attachRawData(info(), raw) });

test("each function asks the backend once, by key or by lockId", async () => {
  const backend = holding();
  await getByKey(backend, "k");
  await getById(backend, LOCK_ID);
  await getByKeyRaw(backend, "k");
  await getByIdRaw(backend, LOCK_ID);
  await lookupDebug(backend, { key: "k" });
  await lookupDebug(backend, { lockId: LOCK_ID });
  await owns(backend, LOCK_ID);
  const byKey = ["lookup", { key: "k" }];
  const byId = ["lookup", { lockId: LOCK_ID }];
  expect(backend.calls).toEqual([byKey, byId, byKey, byId, byKey, byId, byId]);
});

test("the signal is passed on", async () => {
  const backend = holding();
  const { signal } = new AbortController();
  await getByKey(backend, "k", { signal });
  await owns(backend, LOCK_ID, { signal });
  await lookupDebug(backend, { key: "k", signal });
  for (const [, opts] of backend.calls) expect(opts.signal).toBe(signal);
});

test("only the raw functions show the key and the lockId", async () => {
  expect(await getByKey(holding(), "k")).toEqual(info());
  for (const shown of [
    await getByKeyRaw(holding(), "k"),
    await getByIdRaw(holding(), LOCK_ID),
    await lookupDebug(holding(), { key: "k" }),
  ]) {
    expect(shown).toEqual({ ...info(), ...raw });
    expect(Object.keys(shown)).toContain("lockId");
  }
});

test("null is returned if there is no lock", async () => {
  const backend = scripted();
  expect(await getByKey(backend, "k")).toBeNull();
  expect(await getByKeyRaw(backend, "k")).toBeNull();
  expect(await lookupDebug(backend, { lockId: LOCK_ID })).toBeNull();
  expect(await owns(backend, LOCK_ID)).toBe(false);
  expect(await owns(holding(), LOCK_ID)).toBe(true);
});

test("if a backend has no raw data, only what was asked for is shown", async () => {
  const backend = scripted({ lookup: async () => info() });
  const byKey = { ...info(), key: "k", lockId: "[backend does not provide raw lockId]" };
  const byId = { ...info(), key: "[backend does not provide raw key]", lockId: LOCK_ID };
  expect(await getByKeyRaw(backend, "k")).toEqual(byKey);
  expect(await getByIdRaw(backend, LOCK_ID)).toEqual(byId);
  expect(await lookupDebug(backend, { key: "k" })).toEqual(byKey);
  expect(await lookupDebug(backend, { lockId: LOCK_ID })).toEqual(byId);
});

describe("wrong input rejects, before the backend is asked", () => {
  test.each([
    ["no backend", () => getByKey(undefined, "k")],
    ["a backend without lookup", () => owns({}, LOCK_ID)],
    ["a key that is no text", (backend) => getByKey(backend, 1)],
    ["no key", (backend) => getByKeyRaw(backend)],
    ["a lockId that is no text", (backend) => getById(backend, null)],
    ["null for options", (backend) => getById(backend, LOCK_ID, null)],
    ["both", (backend) => lookupDebug(backend, { key: "k", lockId: LOCK_ID })],
    ["neither", (backend) => lookupDebug(backend, {})],
    ["no query", (backend) => lookupDebug(backend)],
  ])("%s", async (_, call) => {
    const backend = scripted();
    expect(await rejection(call(backend))).toMatchObject({
      name: "LockError",
      code: "InvalidArgument",
    });
    expect(backend.calls).toEqual([]);
  });
});
