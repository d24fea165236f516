// The help text, generated from the list of options.

import { COMMANDS, GLOBAL_OPTIONS } from "./options.js";

/** @typedef {import("./options.js").Option} Option */

const EXAMPLES = `
Examples:
  syncguard run report -- ./report.sh    (protects this host only)
In the crontabs of several hosts, so that one of them runs it:
  SYNCGUARD_URL=redis://cache.internal:6379
  */5 * * * *  npx syncguard run report --at-least 60s -n -E 0 -- ./report.sh
`;

const EXIT_CODES = `
Exit codes: the command's own, or 128 + n if signal n ended it; 75 if the lock stayed busy,
74 if it was lost, 69 if the backend cannot be reached, 78 if it is not set up (see syncguard schema),
64 for wrong usage, 126 and 127 as in a shell.
The environment of the command has SYNCGUARD_KEY, SYNCGUARD_LOCK_ID and SYNCGUARD_FENCE, and with
--concurrency or --shared SYNCGUARD_SLOT, a number from 0 that no other holder has. For several keys
the names end in the position of the key: SYNCGUARD_KEY_1, SYNCGUARD_FENCE_1 and so on.
`;

/** @param {string} [name] of a command */
export function helpOf(name) {
  if (name === undefined) {
    const commands = Object.values(COMMANDS).map(({ usage, text }) => [usage, text]);
    return (
      "Usage: syncguard COMMAND\n\n" +
      columns([...commands, ...Object.entries(GLOBAL_OPTIONS).map(row)]) +
      "\nRun syncguard COMMAND --help for the options of a command.\n" +
      EXAMPLES
    );
  }
  const { usage, text, options } = COMMANDS[name];
  const about = `Usage: syncguard ${usage}\n\n${sentence(text)}\n\n`;
  const more = name === "run" ? EXIT_CODES + EXAMPLES : "";
  return about + columns(Object.entries(options).map(row)) + more;
}

/** @param {[string, Option]} entry */
function row([name, { short, value, text }]) {
  const long = value === undefined ? `--${name}` : `--${name} ${value}`;
  return [short === undefined ? `    ${long}` : `-${short}, ${long}`, text];
}

/** @param {string} text */
function sentence(text) {
  return `${text[0].toUpperCase()}${text.slice(1)}.`;
}

/** @param {string[][]} rows */
function columns(rows) {
  const width = Math.max(...rows.map(([first]) => first.length));
  return rows.map(([first, second]) => `  ${first.padEnd(width)}  ${second}\n`).join("");
}
