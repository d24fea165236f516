// Detects the C library of a process from its executable.

import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, describe, expect, test, vi } from "vitest";
import { libcOfProcess, linkerOf } from "../../js/native/libc.js";
import { executable } from "../fixtures/elf.js";

const folder = mkdtempSync(join(tmpdir(), "syncguard-libc-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
afterEach(() => vi.restoreAllMocks());

function file(bytes) {
  const path = join(folder, String(Math.random()));
  writeFileSync(path, bytes);
  return path;
}

function libcOf(path) {
  const { execPath } = process;
  const report = vi.spyOn(process.report, "getReport");
  try {
    process.execPath = path;
    return [libcOfProcess(), report.mock.calls.length];
  } finally {
    process.execPath = execPath;
  }
}

describe.skipIf(process.platform !== "linux")("of this process", () => {
  const { header } = process.report.getReport();

  test("is detected without process.report, with the same result", () => {
    const expected = header.glibcVersionRuntime === undefined ? "musl" : "gnu";
    expect(libcOf(process.execPath)).toEqual([expected, 0]);
  });

  test("is detected by a linker that exists", () => {
    expect(existsSync(linkerOf(process.execPath))).toBe(true);
  });
});

test.each([
  ["musl", "/lib/ld-musl-x86_64.so.1"],
  ["musl", "/lib/ld-musl-aarch64.so.1"],
  ["gnu", "/lib64/ld-linux-x86-64.so.2"],
  ["gnu", "/lib/ld-linux-aarch64.so.1"],
  ["gnu", "/nix/store/0123456789-glibc-2.40/lib/ld-linux-x86-64.so.2"],
])("%s by %s", (libc, linker) => {
  const path = file(executable(linker));
  expect(linkerOf(path)).toBe(linker);
  expect(libcOf(path)).toEqual([libc, 0]);
});

test("the linker's name may be at the end of the file", () => {
  const path = file(executable("/lib/ld-musl-x86_64.so.1", { at: 100_000 }));
  expect(linkerOf(path)).toBe("/lib/ld-musl-x86_64.so.1");
});

test("the libc of a process that was started through the linker", () => {
  expect(libcOf("/usr/lib/ld-musl-x86_64.so.1")).toEqual(["musl", 0]);
  expect(libcOf("/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2")).toEqual(["gnu", 0]);
});

const whole = executable("/lib/ld-musl-x86_64.so.1");

test.each([
  ["there is no such file", undefined],
  ["it is empty", Buffer.alloc(0)],
  ["it is no executable", Buffer.from("#!/bin/sh\n".repeat(100))],
  ["it is cut off in its header", whole.subarray(0, 40)],
  ["it is cut off in its table", whole.subarray(0, 80)],
  ["it is cut off in the name", whole.subarray(0, whole.length - 10)],
  ["it names no linker", executable(undefined)],
  ["it is for 32 bits", Buffer.concat([whole.subarray(0, 4), Buffer.of(1), whole.subarray(5)])],
  ["its numbers are absurd", executable("/lib/ld-musl-x86_64.so.1", { size: 2n ** 63n })],
])("the libc is unknown, without an error, if %s", (_, bytes) => {
  expect(linkerOf(bytes === undefined ? join(folder, "none") : file(bytes))).toBeUndefined();
});
