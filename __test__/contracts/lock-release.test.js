// The end of lock() over a backend whose release can be made to fail.

import { describe, expect, test } from "vitest";
import { LockError, lock } from "../fixtures/api.js";
import { failing, stub } from "../fixtures/stub-backend.js";
import { rejection } from "./setup.js";

const KEY = "the-secret-key";

describe("lock() over a backend whose release fails", () => {
  const down = new LockError("ServiceUnavailable", "down");

  test("returns the result of the function", async () => {
    expect(await lock(failing(down), () => "done", { key: KEY })).toBe("done");
  });

  test("throws the error of the function", async () => {
    const mine = new Error("mine");
    const seen = [];
    const outcome = lock(failing(down), () => Promise.reject(mine), {
      key: KEY,
      onReleaseError: (error) => seen.push(error),
    });
    expect(await rejection(outcome)).toBe(mine);
    expect(seen).toEqual([down]);
  });

  test("onReleaseError gets the error, the lockId and the key", async () => {
    const seen = [];
    let id;
    await lock(failing(down), ({ lockId }) => void (id = lockId), {
      key: KEY,
      onReleaseError: (...args) => seen.push(args),
    });
    expect(seen).toHaveLength(1);
    expect(seen[0][0]).toBe(down);
    expect(seen[0][1]).toMatchObject({ lockId: id, key: KEY });
  });

  test("a callback that throws changes nothing", async () => {
    const outcome = lock(failing(down), () => "done", {
      key: KEY,
      onReleaseError: () => {
        throw new Error("callback");
      },
    });
    expect(await outcome).toBe("done");
  });

  test("a lock that no longer exists at the end is not an error", async () => {
    const seen = [];
    const backend = stub(async () => ({ ok: false }));
    expect(
      await lock(backend, () => "done", { key: KEY, onReleaseError: (e) => seen.push(e) }),
    ).toBe("done");
    expect(seen).toEqual([]);
  });

  test("release never gets the caller's signal", async () => {
    const backend = stub();
    const { signal } = new AbortController();
    await lock(backend, () => {}, { key: KEY, signal, acquisition: { signal } });
    expect(backend.calls[0].signal).not.toBe(signal);
  });
});
