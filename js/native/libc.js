// Detects which C library a Linux process uses. Its executable names the dynamic linker of that library.
// Reading the name takes microseconds, whereas `process.report` takes milliseconds.

import { closeSync, openSync, readSync } from "node:fs";
import { basename } from "node:path";

/** The format of an executable, for 64 bits and little endian. */
const ELF = {
  magic: "7f454c460201",
  headerBytes: 64,
  programHeaderBytes: 56,
  /** The type of the program header that names the dynamic linker. */
  interpreter: 3,
};
const MAX_PROGRAM_HEADERS = 64;
const MAX_PATH_BYTES = 4096;

/** @returns {"gnu" | "musl" | undefined} undefined if it is unknown */
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
    const header = read(file, ELF.headerBytes, 0);
    if (header.toString("hex", 0, 6) !== ELF.magic) return undefined;
    const count = Math.min(header.readUInt16LE(56), MAX_PROGRAM_HEADERS);
    const table = read(file, count * ELF.programHeaderBytes, header.readBigUInt64LE(32));
    for (let at = 0; at < table.length; at += ELF.programHeaderBytes) {
      if (table.readUInt32LE(at) !== ELF.interpreter) continue;
      const length = Math.min(Number(table.readBigUInt64LE(at + 32)), MAX_PATH_BYTES);
      return read(file, length, table.readBigUInt64LE(at + 8))
        .toString("latin1")
        .replace(/\0.*$/s, "");
    }
  } catch {
    // The file cannot be read, or is not an executable.
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

/** Asks Node.js, which takes some milliseconds. */
function libcByReport() {
  const report = /** @type {any} */ (process.report?.getReport());
  if (report?.header === undefined) return undefined;
  return report.header.glibcVersionRuntime === undefined ? "musl" : "gnu";
}
