// CPU time, in nanoseconds.
import { readFileSync } from "node:fs";

const linux = process.platform === "linux";

/**
 * Returns the CPU time of the JavaScript thread. On Linux that is exactly the main thread. Elsewhere it
 * is the whole process, including threads of the addon and of V8.
 */
export function mainThreadCpu() {
  if (!linux) {
    const { user, system } = process.cpuUsage();
    return (user + system) * 1000;
  }
  // The main thread's id is the process id; the first field is its time on a CPU.
  const text = readFileSync(`/proc/self/task/${process.pid}/schedstat`, "latin1");
  return Number(text.slice(0, text.indexOf(" ")));
}

/** Returns the CPU time of all threads of another process, or NaN if it cannot be read. */
export function processCpu(pid) {
  if (!linux || !pid) return NaN;
  const text = readFileSync(`/proc/${pid}/stat`, "latin1");
  // Parse the fields after the name in parentheses. User and system time are in ticks of 10 ms.
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) * 1e7;
}
