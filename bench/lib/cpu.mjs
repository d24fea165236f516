// CPU time, in nanoseconds.
import { readFileSync } from "node:fs";

const linux = process.platform === "linux";

/**
 * What the JavaScript thread used so far. On Linux that is exactly the main
 * thread; elsewhere the whole process, threads of the addon and of V8 included.
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

/** What another process used so far, all its threads; NaN where it cannot be read. */
export function processCpu(pid) {
  if (!linux || !pid) return NaN;
  const text = readFileSync(`/proc/${pid}/stat`, "latin1");
  // After the name in parentheses; user and system time are in ticks of 10 ms.
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) * 1e7;
}
