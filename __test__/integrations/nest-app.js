// The Nest application of projects/nest: compiled, and started as one of several instances.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";

/**
 * Starts an instance; resolves when it listens.
 * @param {string} folder of the compiled application
 * @param {Record<string, string>} env
 */
export async function startInstance(folder, env) {
  const main = ["dist/src/main.js", "dist/main.js"].find((path) => existsSync(join(folder, path)));
  const child = spawn(process.execPath, [main], {
    cwd: folder,
    env: { ...process.env, NODE_OPTIONS: "", NODE_ENV: undefined, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let errors = "";
  child.stderr.on("data", (text) => (errors += text));
  const ended = once(child, "close").then(([code, signal]) => ({ end: code ?? signal, errors }));
  const line = once(createInterface({ input: child.stdout }), "line").then(([text]) => text);
  const url = await Promise.race([
    line,
    ended.then(() => Promise.reject(new Error(`The application does not start:\n${errors}`))),
  ]);
  const { port } = new URL(url);

  async function ask(method, path, headers) {
    const response = await fetch(`http://localhost:${port}/${path}`, {
      method,
      // A connection that is kept would keep the server from closing.
      headers: { connection: "close", ...headers },
    });
    return { status: response.status, body: await response.json() };
  }

  return {
    ended,
    kill: (signal) => child.kill(signal),
    post: (path, headers) => ask("POST", path, headers),
    get: (path) => ask("GET", path),
  };
}
