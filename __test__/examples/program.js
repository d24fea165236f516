// Runs an example as a reader would: in its own process, judged by its output.

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
export const start = (name, args, env) => startFile(`examples/${name}.mjs`, args, env);

/** Starts a program of this repository. */
export function startFile(name, args = [], env = {}) {
  const child = spawn(process.execPath, [name, ...args.map(String)], {
    cwd: ROOT,
    // Frameworks print less in tests, so do not set NODE_ENV.
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
    /** The lines printed so far. */
    lines,
    /** Resolves with the first matching line; rejects if the program ended without one. */
    line: (pattern) =>
      until(() => {
        const found = lines.find((line) => pattern.test(line));
        if (found === undefined && !running.has(child)) {
          throw new Error(`${name} ended without ${pattern}:\n${lines.join("\n")}`);
        }
        return found;
      }, `${name} to print ${pattern}`),
    kill: (signal) => child.kill(signal),
    /** Resolves when the program has ended, with its exit code (or signal) and its output. */
    exit: () => exit,
  };
}

/** Runs `examples/<name>.mjs` until it ends. */
export const run = (name, args, env) => start(name, args, env).exit();
