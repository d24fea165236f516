// Parses the command line. No message quotes a value, which may be a key or contain a password.

import { parseArgs } from "node:util";
import { nearMiss } from "../base/options.js";
import { wrongUsage } from "./exit.js";
import { COMMANDS, GLOBAL_OPTIONS } from "./options.js";

/** @typedef {import("./options.js").Option} Option */
/** @typedef {Record<string, string | true | string[] | undefined>} Given by the long name */

/**
 * @typedef {object} CommandLine
 * @property {string | undefined} name of the command. `undefined` for help or the version
 * @property {Given} options
 * @property {string[]} keys that the command takes
 * @property {string[]} command to run
 */

const HINT = "see syncguard --help";

/** The options of all commands, so that options can precede the command.
 * @type {Record<string, Option>} */
const ALL = Object.assign({}, GLOBAL_OPTIONS, ...Object.values(COMMANDS).map((c) => c.options));

/**
 * @param {string[]} args
 * @returns {CommandLine}
 */
export function parseCommandLine(args) {
  const dashes = args.indexOf("--");
  const own = dashes < 0 ? args : args.slice(0, dashes);
  const { tokens } = parseArgs({
    args: own,
    options: parserOptions(),
    strict: false,
    allowPositionals: true,
    tokens: true,
  });
  /** @type {string[]} */
  const words = [];
  /** @type {Given} */
  const options = {};
  for (const token of tokens) {
    if (token.kind === "positional") words.push(token.value);
    if (token.kind === "option") addOption(options, token);
  }
  const name = words.shift();
  if (name === undefined) {
    if (options.help || options.version) return { name, options, keys: [], command: [] };
    throw wrongUsage(`No command was given: ${HINT}.`);
  }
  if (!Object.hasOwn(COMMANDS, name)) {
    throw wrongUsage(
      `Unknown command. The commands are ${listOf(Object.keys(COMMANDS))}: ${HINT}.`,
    );
  }
  for (const option of Object.keys(options)) {
    if (!Object.hasOwn(COMMANDS[name].options, option)) {
      throw wrongUsage(`${name} has no option --${option}: see syncguard ${name} --help.`);
    }
  }
  const command = dashes < 0 ? [] : args.slice(dashes + 1);
  const keys = /** @type {string[]} */ (options.key ?? words.slice(0, 1));
  const line = { name, options, keys, command };
  if (!options.help) checkWords(line, words, dashes >= 0);
  return line;
}

/** @returns {import("node:util").ParseArgsConfig["options"]} */
function parserOptions() {
  return Object.fromEntries(
    Object.entries(ALL).map(([name, { short, value }]) => [
      name,
      { type: value === undefined ? "boolean" : "string", ...(short && { short }) },
    ]),
  );
}

/**
 * @param {Given} options
 * @param {{ name: string, rawName: string, value?: string | undefined }} token
 */
function addOption(options, token) {
  const { name } = token;
  const value = readOption(token);
  if (!ALL[name].isRepeated) return void (options[name] = value);
  const before = /** @type {string[]} */ (options[name] ?? []);
  options[name] = [...before, String(value)];
}

/** @param {{ name: string, rawName: string, value?: string | undefined }} token */
function readOption({ name, rawName, value }) {
  if (!Object.hasOwn(ALL, name)) {
    const meant = nearMiss(name, Object.keys(ALL));
    const hint = meant === undefined ? HINT : `did you mean --${meant}?`;
    throw wrongUsage(`Unknown option ${rawName}: ${hint}${meant === undefined ? "." : ""}`);
  }
  const wanted = ALL[name].value;
  if (wanted === undefined) {
    if (value !== undefined) throw wrongUsage(`${rawName} takes no value.`);
    return true;
  }
  if (value === undefined) throw wrongUsage(`${rawName} needs a value: ${wanted}.`);
  return value;
}

/**
 * @param {CommandLine} line
 * @param {string[]} words
 * @param {boolean} hasDashes
 */
function checkWords({ name, command, options }, words, hasDashes) {
  const { usage } = COMMANDS[/** @type {string} */ (name)];
  const form = `use syncguard ${usage}.`;
  const wanted = usage.includes("KEY") && options.key === undefined ? 1 : 0;
  if (words.length < wanted) throw wrongUsage(`The key is missing: ${form}`);
  if (words.length > wanted) {
    const several = name === "run" ? " To lock several keys, give --key for each of them." : "";
    throw wrongUsage(`There are too many arguments: ${form}${several}`);
  }
  if (name === "run" && command.length === 0) {
    throw wrongUsage(`The command to run is missing: ${form}`);
  }
  if (name !== "run" && hasDashes) throw wrongUsage(`Only run takes a command: ${form}`);
  if (name === "release" && !options.force) {
    throw wrongUsage("release takes a lock away without asking its holder: confirm with --force.");
  }
}

/** @param {string[]} names */
function listOf(names) {
  return `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
}
