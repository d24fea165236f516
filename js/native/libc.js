// Detects which C library a Linux process uses. Its executable names the dynamic linker of that library.
// Reading the name takes microseconds, whereas `process.report` takes milliseconds.

import { closeSync, openSync, readSync } from "node:fs";
import { basename } from "node:path";

const ELF_64_BIT_LITTLE_ENDIAN = "7f454c460201";
const HEADER_BYTES = 64;
const PROGRAM_HEADER_BYTES = 56;
const MAX_PROGRAM_HEADERS = 64;
const PT_INTERP = 3;
const MAX_PATH_BYTES = 4096;

/** @returns {"gnu" | "musl" | undefined} undefined if it cannot be told */
export function libcOfProcess() {
  const { execPath } = process;
  // If a process was started through the linker (`ld-linux-x86-64.so.2 node …`), that is its executable.
  return libcOfLinker(execPath) ?? libcOfLinker(linkerOf(execPath)) ?? libcByReport();
}

/** @param {string | undefined} linker */
function libcOfLinker(linker) {
  const name = basename(linker ?? "");
  if (name.startsWith("ld-musl-")) return "musl";
  return /^ld-(linux|[0-9])|^ld64\.so/.test(name) ? "gnu" : undefined;
}

/**
 * Returns the dynamic linker that a 64-bit executable names.
 * @param {string} executable
 * @returns {string | undefined}
 */
export function linkerOf(executable) {
  /** @type {number | undefined} */
  let file;
  try {
    file = openSync(executable, "r");
    const header = read(file, HEADER_BYTES, 0);
    if (header.toString("hex", 0, 6) !== ELF_64_BIT_LITTLE_ENDIAN) return undefined;
    const count = Math.min(header.readUInt16LE(56), MAX_PROGRAM_HEADERS);
    const table = read(file, count * PROGRAM_HEADER_BYTES, header.readBigUInt64LE(32));
    for (let at = 0; at < table.length; at += PROGRAM_HEADER_BYTES) {
      if (table.readUInt32LE(at) !== PT_INTERP) continue;
      const length = Math.min(Number(table.readBigUInt64LE(at + 32)), MAX_PATH_BYTES);
      return read(file, length, table.readBigUInt64LE(at + 8))
        .toString("latin1")
        .replace(/\0.*$/s, "");
    }
  } catch {
    // It cannot be read, or is not an executable.
  } finally {
    if (file !== undefined) closeSync(file);
  }
  return undefined;
}

/**
 * @param {number} file
 * @param {number} length
 * @param {number | bigint} position
 */
function read(file, length, position) {
  const bytes = Buffer.alloc(length);
  if (readSync(file, bytes, 0, length, position) < length) throw new RangeError("Too short");
  return bytes;
}

/** Takes some milliseconds. */
function libcByReport() {
  const report = /** @type {any} */ (process.report?.getReport());
  if (report?.header === undefined) return undefined;
  return report.header.glibcVersionRuntime === undefined ? "musl" : "gnu";
}
