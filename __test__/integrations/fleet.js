// Processes that share a schedule of every second, and what became of each run.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { until } from "../fixtures/wait.js";

const WORKER = fileURLToPath(new URL("./cron-worker.js", import.meta.url));
const SECOND = 1000;

/** @param {object} job what all processes of the fleet share */
export function createFleet(job) {
  const processes = [];

  /** Starts a process; resolves when it listens to the clock. */
  async function start(own = {}) {
    const child = spawn(process.execPath, [WORKER, JSON.stringify({ ...job, ...own })], {
      stdio: ["ignore", "pipe", "pipe"],
      env: { ...process.env, NODE_OPTIONS: "" },
    });
    const one = { child, errors: "", events: [], ended: once(child, "exit") };
    child.stderr.on("data", (text) => (one.errors += text));
    createInterface({ input: child.stdout }).on("line", (line) => {
      const [what, time, reason] = line.split(" ");
      one.events.push({ what, at: time && Date.parse(time), reason });
    });
    processes.push(one);
    await until(() => {
      if (child.exitCode !== null) throw new Error(`a process ended:\n${one.errors}`);
      return one.events.some(({ what }) => what === "ready");
    }, "a process of the fleet");
    return one;
  }

  /** Resolves when all living processes have heard of so many seconds since `from`. */
  const seconds = (count, from = Date.now()) =>
    until(() => {
      const alive = processes.filter(({ child }) => child.exitCode === null && !child.signalCode);
      return alive.every(({ events }) => events.at(-1).at >= from + count * SECOND);
    }, `${count} seconds`);

  /**
   * Returns the times of the runs between two times with how often each happened. A run that every
   * process missed because the machine was busy counts as `undefined`.
   */
  function runs(from, to) {
    const counts = new Map();
    for (let at = Math.ceil(from / SECOND) * SECOND; at <= to; at += SECOND) {
      const said = processes.flatMap(({ events }) => events.filter((event) => event.at === at));
      const times = said.filter(({ what }) => what === "ran").length;
      const isMissed =
        times === 0 && said.length > 0 && said.every(({ what }) => what === "missed");
      counts.set(new Date(at).toISOString(), isMissed ? undefined : times);
    }
    return counts;
  }

  function kill() {
    for (const { child } of processes) child.kill("SIGKILL");
  }

  return { start, seconds, runs, kill, processes };
}
