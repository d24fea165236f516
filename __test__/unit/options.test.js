// Unknown options are refused in the same way on every backend.

import { describe, expect, test } from "vitest";
import { nearMiss, unknownOption } from "../../js/base/options.js";
import { createFirestoreBackend } from "../../js/firestore.js";
import { createMemoryBackend } from "../../js/memory.js";
import { createPostgresBackend, setupSchema } from "../../js/postgres.js";
import { createRedisBackend } from "../../js/redis.js";
import { createSqliteBackend } from "../../js/sqlite.js";
import { rejection } from "./support.js";

const LOCK = [
  ...["key", "ttlMs", "signal", "acquisition", "autoExtend", "maxHoldMs", "minHoldMs"],
  ...["throwIfLost", "name", "onReleaseError", "onEvent"],
];

describe("nearMiss", () => {
  test.each([
    ["ttl", "ttlMs"],
    ["TTLms", "ttlMs"],
    ["ttlMS", "ttlMs"],
    ["tlMs", "ttlMs"],
    ["autoextend", "autoExtend"],
    ["auto_extend", "autoExtend"],
    ["maxHold", "maxHoldMs"],
    ["onRelease", "onReleaseError"],
    ["onReleaseErr", "onReleaseError"],
    ["aquisition", "acquisition"],
    ["singal", "signal"],
    ["keys", "key"],
    ["Name", "name"],
  ])("%s suggests %s", (name, meant) => expect(nearMiss(name, LOCK)).toBe(meant));

  test.each(["id", "tag", "date", "type", "mode", "job", "max", "event", "k", "", "__proto__"])(
    "%o suggests nothing",
    (name) => expect(nearMiss(name, LOCK)).toBeUndefined(),
  );

  test("a known name suggests nothing, and the nearest name is suggested", () => {
    for (const name of LOCK) expect(nearMiss(name, LOCK)).toBeUndefined();
    expect(nearMiss("minHoldMS", LOCK)).toBe("minHoldMs");
    expect(nearMiss("maxHoldM", LOCK)).toBe("maxHoldMs");
    expect(nearMiss("x".repeat(1_000_000), LOCK)).toBeUndefined();
  });

  test("the error names the suggestion, or all options", () => {
    expect(unknownOption("ttl", LOCK)).toMatchObject({
      code: "InvalidArgument",
      message: 'Unknown option "ttl": did you mean "ttlMs"?',
    });
    expect(unknownOption("foo", ["a", "b"]).message).toBe('Unknown option "foo": use one of a, b');
  });
});

/** Each backend with a target, and with options in the target. */
const BACKENDS = {
  memory: [createMemoryBackend, "memory:", {}],
  sqlite: [createSqliteBackend, "/tmp/x.db", { path: "/tmp/x.db" }],
  redis: [createRedisBackend, "redis://127.0.0.1:1", { host: "127.0.0.1", port: 1 }],
  postgres: [createPostgresBackend, "postgres://u@127.0.0.1:1/d", { host: "127.0.0.1", port: 1 }],
  firestore: [
    createFirestoreBackend,
    "firestore://p?emulatorHost=127.0.0.1:1",
    { projectId: "p", emulatorHost: "127.0.0.1:1" },
  ],
};

describe.each(Object.entries(BACKENDS))("%s", (_, [create, url, inOne]) => {
  const message = (...args) => {
    try {
      create(...args);
    } catch (error) {
      expect(error).toMatchObject({ name: "LockError", code: "InvalidArgument" });
      return error.message;
    }
    return "accepted";
  };
  const hint = 'Unknown option "disposeTimeout": did you mean "disposeTimeoutMs"?';

  test("a misspelt option is refused in every position", () => {
    expect(message(url, { disposeTimeout: 5 })).toBe(hint);
    expect(message(inOne, { disposeTimeout: 5 })).toBe(hint);
    expect(message({ ...inOne, disposeTimeout: 5 })).toBe(hint);
    expect(message({ ...inOne, onReleaseErr: () => {} })).toContain('"onReleaseError"');
    expect(message(url, { surprise: 1 })).toMatch(/"surprise": use one of .*onReleaseError/);
  });

  test("an option that is undefined counts as not given", () => {
    expect(message(url, { surprise: undefined })).toBe("accepted");
    expect(message({ ...inOne, surprise: undefined })).toBe("accepted");
  });

  test("undefined, null and an empty object count as no options", () => {
    for (const none of [undefined, null, {}]) expect(message(url, none)).toBe("accepted");
    for (const wrong of [5, "text", [], () => {}, new URL("memory:")]) {
      expect(message(url, wrong)).toBe("The backend's options must be an object");
    }
  });

  test("the shared options are known and checked", () => {
    const shared = { onReleaseError: () => {}, disposeTimeoutMs: 5, connectTimeoutMs: 5 };
    expect(message(url, { ...shared, operationTimeoutMs: 5 })).toBe("accepted");
    expect(message({ ...inOne, ...shared, operationTimeoutMs: 5 })).toBe("accepted");
    for (const name of ["connectTimeoutMs", "operationTimeoutMs"]) {
      for (const wrong of [0, -1, 1.5, NaN, Infinity, 2 ** 31, "5", null]) {
        const text = `${name} must be a positive integer (milliseconds)`;
        expect(message(url, { [name]: wrong })).toBe(text);
        expect(message({ ...inOne, [name]: wrong })).toBe(text);
      }
    }
    expect(message(url, { onReleaseError: 1 })).toBe("onReleaseError must be a function");
    expect(message({ ...inOne, onReleaseError: 1 })).toBe("onReleaseError must be a function");
  });

  test("the error for options that cannot be read has the cause", () => {
    const cause = new Error("getter");
    const hostile = (fields) =>
      Object.defineProperty(fields, "onReleaseError", {
        get() {
          throw cause;
        },
      });
    for (const args of [[hostile({ ...inOne })], [url, hostile({})]]) {
      expect(() => create(...args)).toThrow(
        expect.objectContaining({ code: "InvalidArgument", cause }),
      );
    }
    const { proxy, revoke } = Proxy.revocable({}, {});
    revoke();
    for (const args of [[proxy], [url, proxy]]) {
      expect(() => create(...args)).toThrow(expect.objectContaining({ code: "InvalidArgument" }));
    }
  });
});

test("separate options take precedence over those in the target, which are not changed", () => {
  const target = { path: "/tmp/x.db", durability: "low", operationTimeoutMs: 0 };
  expect(() => createSqliteBackend(target, { durability: "full" })).toThrow(/operationTimeoutMs/);
  expect(() => createSqliteBackend(target, { operationTimeoutMs: 5 })).toThrow(/durability/);
  createSqliteBackend(target, { durability: "full", operationTimeoutMs: 5 });
});

test("fields of a connection are not options of the backend", () => {
  expect(() => createPostgresBackend("postgres://h", { password: "secret" })).toThrow(
    /Unknown option "password": use one of/,
  );
  expect(() => createRedisBackend("redis://h", { host: "h" })).toThrow(/Unknown option "host"/);
  expect(() => createRedisBackend({ host: "h", clientKeyPrefix: "x" })).toThrow(/clientKeyPrefix/);
});

test("setupSchema refuses the same", async () => {
  const error = await rejection(setupSchema("postgres://h", { tablename: "t" }));
  expect(error.message).toBe('Unknown option "tablename": did you mean "tableName"?');
});
