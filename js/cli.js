#!/usr/bin/env node
// The command `syncguard`. Each command's code is loaded on demand.

import { Ended } from "./cli/exit.js";
import { parseCommandLine } from "./cli/parse.js";

/** @typedef {import("./cli/parse.js").CommandLine} CommandLine */

/** @type {Record<string, (line: CommandLine) => Promise<number>>} */
const COMMANDS = {
  run: async (line) => (await import("./cli/run.js")).run(line),
  ls: async (line) => (await import("./cli/look.js")).ls(line),
  show: async (line) => (await import("./cli/look.js")).show(line),
  schema: async (line) => (await import("./cli/schema.js")).schema(line),
  doctor: async (line) => (await import("./cli/doctor.js")).doctor(line),
  release: async (line) => (await import("./cli/look.js")).release(line),
};

/** @param {string[]} args */
async function main(args) {
  const line = parseCommandLine(args);
  const { name, options } = line;
  if (options.version) {
    const { VERSION } = await import("./native/platforms.js");
    process.stdout.write(`${VERSION}\n`);
    return 0;
  }
  if (options.help || name === undefined) {
    const { helpOf } = await import("./cli/help.js");
    process.stdout.write(helpOf(name));
    return 0;
  }
  return COMMANDS[name](line);
}

main(process.argv.slice(2)).then(
  (exitCode) => (process.exitCode = exitCode),
  (error) => {
    if (!(error instanceof Ended)) throw error;
    if (error.message !== "") process.stderr.write(`syncguard: ${error.message}\n`);
    process.exitCode = error.exitCode;
  },
);
