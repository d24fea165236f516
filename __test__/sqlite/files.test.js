// A file that cannot be used causes a clear LockError. Nothing is lost or overwritten.

import { execFile } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { rejection } from "../contracts/setup.js";
import { LockError } from "../fixtures/api.js";
import { JS } from "../fixtures/node.js";
import { testFolder } from "./folder.js";
import { open } from "./open.js";

const folder = testFolder();

/** Returns the error of the first operation, and checks that later ones get the same error. */
async function refusal(path) {
  const backend = open({ path });
  const error = await rejection(backend.acquire({ key: "k", ttlMs: 1_000 }));
  expect(error).toBeInstanceOf(LockError);
  const again = await rejection(backend.isLocked({ key: "k" }));
  expect(again.message).toBe(error.message);
  await backend.close();
  return error;
}

describe("refused", () => {
  test("a file that is not a database", async () => {
    const path = folder.file();
    const text = "my precious notes\n".repeat(1_000);
    writeFileSync(path, text);
    const error = await refusal(path);
    expect(error.code).toBe("InvalidArgument");
    expect(error.message).toContain("not a SQLite database");
    expect(readFileSync(path, "utf8")).toBe(text);
  });

  test("a directory", async () => {
    const path = folder.file();
    mkdirSync(path);
    const error = await refusal(path);
    expect(error.code).toBe("InvalidArgument");
    expect(error.message).toContain("is a directory");
    expect(readdirSync(path)).toEqual([]);
  });

  test("a file in a directory that does not exist", async () => {
    const error = await refusal(`${folder.path}/missing/locks.db`);
    expect(error.code).toBe("InvalidArgument");
    expect(error.message).toContain("does not exist");
  });

  test("the same backend works once the cause is gone", async () => {
    const path = `${folder.path}/later/locks.db`;
    const backend = open({ path });
    expect((await rejection(backend.isLocked({ key: "k" }))).code).toBe("InvalidArgument");
    mkdirSync(`${folder.path}/later`);
    expect(await backend.isLocked({ key: "k" })).toBe(false);
    expect((await backend.acquire({ key: "k", ttlMs: 1_000 })).ok).toBe(true);
    await backend.close();
  });
});

// A limit on the file size simulates a full disk: SQLite's writes fail at the same point.
test("a full disk is a ServiceUnavailable, and stored data is kept", async ({ skip }) => {
  skip(process.platform === "win32", "only a shell of Unix limits the size of files");
  const path = folder.file();
  const roomy = open({ path });
  const held = await roomy.acquire({ key: "held", ttlMs: 600_000 });
  await roomy.close();
  const program = `
    const { createSqliteBackend } = await import(${JSON.stringify(`${JS}sqlite.js`)});
    const backend = createSqliteBackend(${JSON.stringify(path)});
    const granted = [];
    let error;
    while (!error) {
      const key = "k".repeat(400) + granted.length;
      await backend.acquire({ key, ttlMs: 600_000 }).then(
        (lock) => granted.push([key, lock.fence]),
        (failure) => (error = failure),
      );
    }
    const { code, message } = error;
    console.log(JSON.stringify({ code, message, granted, held: await backend.isLocked({ key: "held" }) }));
    process.exit(0);
  `;
  const shell = 'ulimit -f 1024; exec "$0" "$@"';
  const args = ["-c", shell, process.execPath, "--input-type=module", "--eval", program];
  const { stdout } = await promisify(execFile)("bash", args, {
    env: { ...process.env, NODE_OPTIONS: "" },
  });
  const { code, message, granted, held: stillHeld } = JSON.parse(stdout);
  expect(code).toBe("ServiceUnavailable");
  expect(message).toContain(path);
  expect(stillHeld).toBe(true);
  expect(granted.length).toBeGreaterThan(10);

  const backend = open({ path });
  expect((await backend.lookup({ key: "held" })).fence).toBe(held.fence);
  for (const [key, fence] of granted) {
    expect((await backend.lookup({ key })).fence).toBe(fence);
  }
  const { ok } = await backend.release({ lockId: held.lockId });
  expect(ok).toBe(true);
  await backend.close();
});
