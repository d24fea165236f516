// Processes that follow requests of a test.

import { fork } from "node:child_process";
import { once } from "node:events";
import { deferred } from "../fixtures/wait.js";

/** `worker` is a file that calls `serve`. `argument` is passed as JSON. */
export async function startProcess(worker, argument, { env = {} } = {}) {
  const child = fork(worker, [JSON.stringify(argument)], {
    serialization: "advanced",
    stdio: ["ignore", "ignore", "pipe", "ipc"],
    execArgv: [],
    env: { ...process.env, NODE_OPTIONS: "", ...env },
  });
  let stderr = "";
  child.stderr.setEncoding("utf8").on("data", (text) => (stderr += text));
  const exit = once(child, "exit").then(([code, signal]) => ({ code, signal, stderr }));
  const [ready] = await Promise.race([once(child, "message"), exit.then((how) => [how])]);
  if (ready !== "ready") throw new Error(`a process did not start: ${ready.stderr}`);

  const calls = new Map();
  let last = 0;
  child.on("message", ([id, failure, result]) => {
    const { resolve, reject } = calls.get(id);
    calls.delete(id);
    if (failure === undefined) resolve(result);
    else reject(new Error(failure));
  });
  exit.then(() => {
    for (const { reject } of calls.values()) reject(new Error(`the process ended: ${stderr}`));
  });
  return {
    /** Resolves with how it ended. */
    exit,
    stderr: () => stderr,
    call(name, options) {
      const { promise, resolve, reject } = deferred();
      promise.catch(() => {}); // whoever has failed meanwhile does not look any more
      calls.set(++last, { resolve, reject });
      child.send([last, name, options]);
      return promise;
    },
    async kill() {
      child.kill("SIGKILL");
      await exit;
    },
  };
}

/** Called in the process: serves the requests of the test from now on. */
export function serve(operations) {
  process.on("message", async ([id, name, options]) => {
    try {
      process.send([id, undefined, await operations[name](options)]);
    } catch (error) {
      process.send([id, String(error.stack)]);
    }
  });
  process.send("ready");
}

/** Returns nanoseconds of a clock that all processes of a host share. */
export const now = () => process.hrtime.bigint();

export const toMs = (nanoseconds) => Number(nanoseconds) / 1e6;
