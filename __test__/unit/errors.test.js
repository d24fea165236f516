import { inspect } from "node:util";
import { describe, expect, test } from "vitest";
import { LockError } from "../../js/index.js";
import { backendError, checkBackend, replyError, toError } from "../../js/base/errors.js";
import { createMemoryBackend } from "../../js/memory.js";

describe("LockError", () => {
  test("has a code, a message, a context and a cause", () => {
    const cause = new Error("why");
    const error = new LockError("Internal", "what", { key: "k", lockId: "id", cause });
    expect(error).toBeInstanceOf(Error);
    expect(error.name).toBe("LockError");
    expect(error.code).toBe("Internal");
    expect(error.message).toBe("what");
    expect(error.context).toEqual({ key: "k", lockId: "id", cause });
    expect(error.cause).toBe(cause);
    expect(error.stack).toContain("errors.test.js");
  });

  test("uses its code as the default message, and has no own cause", () => {
    const error = new LockError("RateLimited");
    expect(error.message).toBe("RateLimited");
    expect(error.context).toBeUndefined();
    expect("cause" in error).toBe(false);
  });

  test("shows neither key nor lockId when printed or serialized", () => {
    const error = new LockError("Internal", "what", { key: "the-key", lockId: "the-lock-id" });
    for (const text of [inspect(error), JSON.stringify(error), String(error)]) {
      expect(text).not.toContain("the-");
    }
    expect(Object.keys(error)).toEqual(["code"]);
  });

  test("has the stack of the operation's caller", async () => {
    const backend = createMemoryBackend();
    async function whoeverCalled() {
      await backend.acquire({ key: "", ttlMs: 1 });
    }
    const error = await whoeverCalled().catch((thrown) => thrown);
    expect(error.stack).toContain("whoeverCalled");
  });
});

test("a native error reply becomes a LockError with its details and its cause", () => {
  const reply = `E${JSON.stringify({
    code: "ServiceUnavailable",
    message: "gone",
    cause: "reset by peer",
    details: { sqlstate: "57P01" },
  })}`;
  const error = replyError(reply, { key: "k" });
  expect(error).toMatchObject({ code: "ServiceUnavailable", message: "gone" });
  expect(error.context).toMatchObject({ key: "k", sqlstate: "57P01" });
  expect(error.cause).toMatchObject({ message: "reset by peer" });
  expect(replyError('E{"code":"Internal","message":"m"}').cause).toBeUndefined();
});

test("any thrown value can be converted to an Error", () => {
  const error = new TypeError("as it is");
  expect(toError(error)).toBe(error);
  const made = toError("text");
  expect(made).toBeInstanceOf(Error);
  expect(made).toMatchObject({ message: "text", cause: "text", originalError: "text" });
  expect(Object.keys(made)).toEqual([]);
  expect(toError(undefined).message).toBe("undefined");
  expect("originalError" in toError(undefined)).toBe(true);
  const silent = Object.create(null);
  expect(toError(silent)).toMatchObject({ cause: silent, originalError: silent });
});

test("a custom backend's failure is wrapped without its text, and a LockError stays as it is", () => {
  const own = new LockError("RateLimited");
  expect(backendError("acquire", own, {})).toBe(own);
  const foreign = new Error("password=hunter2");
  const wrapped = backendError("acquire", foreign, { key: "k" });
  expect(wrapped).toMatchObject({ code: "Internal", cause: foreign });
  expect(wrapped.message).toContain("acquire()");
  expect(wrapped.message).not.toContain("hunter2");
});

test("a LockError of another copy of the package keeps its code", async () => {
  const copy = await import("../../js/base/errors.js?copy");
  const theirs = new copy.LockError("RateLimited", "slow down", { key: "k" });
  expect(theirs).not.toBeInstanceOf(LockError);
  const ours = backendError("acquire", theirs, {});
  expect(ours).toBeInstanceOf(LockError);
  expect(ours).toMatchObject({ code: "RateLimited", message: "slow down", cause: theirs });
  expect(ours.context.key).toBe("k");
});

test.each([null, undefined, 1, "text", {}, { acquire: 1 }])("%o is not a backend", (value) => {
  expect(() => checkBackend(value, ["acquire"])).toThrow(/must be a LockBackend/);
});

test("the error for a backend whose fields cannot be read has the cause", () => {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  expect(() => checkBackend(proxy, ["acquire"])).toThrow(
    expect.objectContaining({ code: "InvalidArgument", cause: expect.any(TypeError) }),
  );
});
