// Starts processes with a lock manager, and gives them commands.

import { fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { until } from "../../fixtures/wait.js";

const WORKER = fileURLToPath(new URL("./worker.js", import.meta.url));

/** @param {{ module: string, options: object }} store as the worker opens it */
export async function startProcess(store) {
  const child = fork(WORKER, [JSON.stringify(store)], { execArgv: [], env: process.env });
  const said = [];
  child.on("message", (message) => said.push(message));
  await until(() => said.some(({ ready }) => ready), "a process with a lock manager");
  let count = 0;

  async function tell(command, args = {}) {
    const id = (count += 1);
    child.send({ id, command, ...args });
    const answer = await until(() => said.find((one) => one.id === id), `an answer to ${command}`);
    if (answer.error) throw Object.assign(new Error(answer.error.message), answer.error);
    return answer.value;
  }

  return {
    hold: (name, options = {}) => tell("hold", { name, ...options }),
    release: (name) => tell("release", { name }),
    query: () => tell("query"),
    /** Resolves with the error of a request that was granted and rejected later. */
    rejection: (name) =>
      until(() => said.find(({ rejected }) => rejected === name)?.error, "the request to reject"),
    kill: async () => {
      child.kill("SIGKILL");
      if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
    },
  };
}
