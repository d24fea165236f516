// The targets and options that createSqliteBackend() accepts.

import { existsSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { describe, expect, test } from "vitest";
import { createBackend, LockError } from "../fixtures/api.js";
import { createLock, createSqliteBackend } from "../../js/sqlite.js";
import { testFolder } from "./folder.js";

const folder = testFolder();
const path = join(folder.path, "a file.db");
const inUrl = pathToFileURL(path).pathname;
const windows = process.platform === "win32";

describe("the same file", () => {
  test.each([
    ["a path", path],
    ["sqlite:/path", `sqlite:${inUrl}`],
    ["sqlite:///path", `sqlite://${inUrl}`],
    ["a query", `sqlite:${inUrl}?durability=full&connectTimeoutMs=60000&operationTimeoutMs=60000`],
    ["a file: URL", pathToFileURL(path).href],
    ["a URL object", pathToFileURL(path)],
    ["a sqlite: URL object", new URL(`sqlite:${inUrl}`)],
    ["an options object", { path, durability: "normal" }],
    ["a flag that is not needed", { path, allowNetworkFileSystem: true }],
    ["a flag that is not needed, in the URL", `sqlite:${inUrl}?allowNetworkFileSystem=true`],
  ])("%s", async (_, target) => {
    const holder = createSqliteBackend(path);
    const held = await holder.acquire({ key: "k", ttlMs: 60_000 });
    const backend = createSqliteBackend(target);
    expect(await backend.isLocked({ key: "k" })).toBe(true);
    await held.release();
    await Promise.all([holder.close(), backend.close()]);
  });

  test("by createBackend() with options", async () => {
    const backend = createBackend(`sqlite:${inUrl}?durability=full`, { durability: "normal" });
    expect(backend.capabilities).toEqual({
      backend: "sqlite",
      supportsFencing: true,
      timeAuthority: "server",
    });
    expect((await backend.acquire({ key: "url", ttlMs: 1_000 })).ok).toBe(true);
    await backend.close();
  });

  test("by createLock()", async () => {
    const lock = createLock(path, { durability: "normal" });
    expect(await lock(({ fence }) => typeof fence, { key: "bound" })).toBe("string");
  });
});

test("a relative path does not follow a change of the working directory", async () => {
  const before = process.cwd();
  process.chdir(folder.path);
  const backend = createSqliteBackend("relative.db");
  process.chdir(before);
  await backend.isLocked({ key: "k" });
  await backend.close();
  expect(existsSync(join(folder.path, "relative.db"))).toBe(true);
});

describe("refused at once", () => {
  test.each([
    ["a number", [5]],
    ["an empty path", [""]],
    [":memory:", [":memory:"]],
    ["a path with a NUL", ["a\0b"]],
    ["a path that is not a string", [{ path: 5 }]],
    ["a sqlite: URL with a host", ["sqlite://host/path"]],
    ["a relative URL with slashes", ["sqlite://file.db"]],
    // On Windows the host names a share, which is refused when the file is opened.
    ...(windows ? [] : [["a file: URL with a host", ["file://host/path"]]]),
    ["an unknown option in the query", ["sqlite:/x?sync=off"]],
    ["a malformed escape", ["sqlite:/%zz"]],
    ["an unknown durability", [path, { durability: "low" }]],
    ["an unknown durability in the URL", ["sqlite:/x?durability=low"]],
    ["a flag that is not a boolean", [path, { allowNetworkFileSystem: "yes" }]],
    ["a flag in the URL that is not a boolean", ["sqlite:/x?allowNetworkFileSystem=yes"]],
    ["a timeout of 0", [path, { operationTimeoutMs: 0 }]],
    ["a timeout that is not a number", [path, { operationTimeoutMs: "5" }]],
    ["an endless timeout", [path, { connectTimeoutMs: Infinity }]],
    ["a timeout in the URL", ["sqlite:/x?operationTimeoutMs=soon"]],
    [
      "options that cannot be read",
      [
        path,
        {
          get durability() {
            throw new Error("no");
          },
        },
      ],
    ],
  ])("%s", (_, args) => {
    let thrown;
    try {
      createSqliteBackend(...args);
    } catch (error) {
      thrown = error;
    }
    expect(thrown).toBeInstanceOf(LockError);
    expect(thrown.code).toBe("InvalidArgument");
  });
});
