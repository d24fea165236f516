// An example as its reader would run it: a process of its own, judged by what it prints.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { afterEach } from "vitest";
import { ROOT } from "../fixtures/node.js";
import { until } from "../fixtures/wait.js";

const running = new Set();

afterEach(() => {
  for (const child of running) child.kill("SIGKILL");
});

/** Starts `examples/<name>.mjs`. */
export function start(name, args = [], env = {}) {
  const child = spawn(process.execPath, [`examples/${name}.mjs`, ...args.map(String)], {
    cwd: ROOT,
    // Not as in a test: frameworks are quieter there.
    env: { ...process.env, NODE_OPTIONS: "", NODE_ENV: undefined, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  running.add(child);
  const lines = [];
  for (const stream of [child.stdout, child.stderr]) {
    createInterface({ input: stream }).on("line", (line) => lines.push(line));
  }
  const exit = once(child, "close").then(([code, signal]) => {
    running.delete(child);
    return { code: code ?? signal, lines };
  });
  return {
    pid: child.pid,
    /** What it printed so far. */
    lines,
    /** Resolves with the first line that matches; rejects when it ended without one. */
    line: (pattern) =>
      until(() => {
        const found = lines.find((line) => pattern.test(line));
        if (found === undefined && !running.has(child)) {
          throw new Error(`${name} ended without ${pattern}:\n${lines.join("\n")}`);
        }
        return found;
      }, `${name} to print ${pattern}`),
    kill: (signal) => child.kill(signal),
    /** Resolves when it ended, with its exit code (or signal) and all that it printed. */
    exit: () => exit,
  };
}

/** Runs `examples/<name>.mjs` to its end. */
export const run = (name, args, env) => start(name, args, env).exit();
