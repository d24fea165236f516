// Runs the command `syncguard` as a separate process, with pipes or on a terminal.

import { spawn, spawnSync } from "node:child_process";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { ROOT } from "../fixtures/node.js";
import { until } from "../fixtures/wait.js";

const CLI = join(ROOT, "js/cli.js");

/** Quotes a word for a shell. */
const quoted = (word) => `'${word.replaceAll("'", `'\\''`)}'`;

/**
 * A process whose output is collected. `env`: only what is given is added, and no SYNCGUARD_URL of
 * the machine's is left.
 */
function start(file, args, { env = {}, input } = {}) {
  const { SYNCGUARD_URL: _ours, ...inherited } = process.env;
  const child = spawn(file, args, { cwd: ROOT, env: { ...inherited, NODE_OPTIONS: "", ...env } });
  const started = { child, pid: child.pid, stdout: "", stderr: "" };
  child.stdout.on("data", (data) => (started.stdout += data));
  child.stderr.on("data", (data) => (started.stderr += data));
  child.stdin.on("error", () => {});
  if (input !== undefined) child.stdin.end(input);
  started.ended = new Promise((resolve) => {
    child.on("close", (code, signal) => {
      const { stdout, stderr } = started;
      resolve({ code, signal, stdout, stderr });
    });
  });
  started.said = (text) => until(() => started.stdout.includes(text), `"${text}"`);
  onTestFinished(() => {
    child.kill("SIGKILL");
  });
  return started;
}

/** Starts the command with pipes. */
export const startCli = (args, options) => start(process.execPath, [CLI, ...args], options);

/** Runs the command with pipes until it ends. */
export const cli = (args, options) => startCli(args, { input: "", ...options }).ended;

/**
 * Starts it on a pseudo-terminal, by `script` of util-linux (Debian: bsdutils). What is written to
 * stdin is typed; stdout is what the terminal shows. `within` makes a shell script of the command.
 * Without it no shell stays between the terminal and the command: some end by a Ctrl-C themselves.
 */
export function startOnTerminal(
  args,
  { within = (command) => `exec ${command}`, env, ...options } = {},
) {
  if (spawnSync("script", ["--version"]).status !== 0) {
    throw new Error("These tests need the program script (Debian package bsdutils).");
  }
  const command = [process.execPath, CLI, ...args].map(quoted).join(" ");
  const started = start("script", ["-qec", within(command), "/dev/null"], {
    ...options,
    env: { ...env, SHELL: "/bin/sh" },
  });
  started.type = (text) => started.child.stdin.write(text);
  return started;
}

/** Returns the letter that `ps` shows for the state of a process, or "" if there is no such process. */
export function stateOf(pid) {
  const { stdout } = spawnSync("ps", ["-o", "stat=", "-p", String(pid)], { encoding: "utf8" });
  return stdout.slice(0, 1);
}

/** Whether the process exists and has not ended. */
export const isAlive = (pid) => !["", "Z"].includes(stateOf(pid));
