// Processes that a test tells what to do: see worker.js.

import { fork } from "node:child_process";
import { once } from "node:events";
import { deferred } from "../fixtures/wait.js";

const WORKER = new URL("./worker.js", import.meta.url);

/** `module` exports `open(config)`; `config` must survive JSON. */
export async function startProcess({ module, config, env = {} }) {
  const child = fork(WORKER, [JSON.stringify({ module: String(module), config })], {
    serialization: "advanced",
    stdio: ["ignore", "ignore", "pipe", "ipc"],
    execArgv: [],
    env: { ...process.env, NODE_OPTIONS: "", ...env },
  });
  let stderr = "";
  child.stderr.setEncoding("utf8").on("data", (text) => (stderr += text));
  const exit = once(child, "exit").then(([code, signal]) => ({ code, signal, stderr }));
  const calls = new Map();
  let last = 0;

  const [ready] = await Promise.race([once(child, "message"), exit.then((how) => [how])]);
  if (ready !== "ready") throw new Error(`a process did not start: ${ready.stderr}`);
  child.on("message", ([id, failure, result]) => {
    const { resolve, reject } = calls.get(id);
    calls.delete(id);
    if (failure === undefined) resolve(result);
    else reject(new Error(failure));
  });
  exit.then(() => {
    for (const { reject } of calls.values()) reject(new Error(`the process ended: ${stderr}`));
  });

  const call = (name, options) => {
    const { promise, resolve, reject } = deferred();
    promise.catch(() => {}); // a test that has failed does not look any more
    calls.set(++last, { resolve, reject });
    child.send([last, name, options]);
    return promise;
  };
  return {
    /** When and how it ended. */
    exit,
    stderr: () => stderr,
    take: (options) => call("take", options),
    release: (options) => call("release", options),
    wait: (options) => call("wait", options),
    abort: (options) => call("abort", options),
    cpu: () => call("cpu"),
    close: () => call("close"),
    disconnect: () => call("disconnect"),
    async kill() {
      child.kill("SIGKILL");
      await exit;
    },
  };
}

export const toMs = (nanoseconds) => Number(nanoseconds) / 1e6;
