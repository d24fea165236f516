// Lists processes.

import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";

/**
 * @typedef {object} Process
 * @property {number} pid
 * @property {number} parent
 * @property {number} group
 * @property {number} session 0 if the system does not tell
 * @property {number} foreground the foreground group of its terminal. Not positive if it has no terminal
 */

/**
 * Returns the live processes. A zombie, which has ended but was not waited for, is not live.
 * @returns {Process[]}
 */
export function processes() {
  return process.platform === "linux" ? fromProc() : fromPs(["-A"]);
}

/** @returns {Process | undefined} this process */
export function thisProcess() {
  if (process.platform === "linux") return readProc("self");
  return fromPs(["-p", String(process.pid)])[0];
}

/**
 * Returns whether a process was started with this environment variable. False if that is unknown.
 * @param {number} pid
 * @param {string} variable `NAME=value`
 */
export function hasVariable(pid, variable) {
  try {
    return readFileSync(`/proc/${pid}/environ`, "latin1").split("\0").includes(variable);
  } catch {
    return false;
  }
}

function fromProc() {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(readProc)
    .filter((found) => found !== undefined);
}

/**
 * @param {string} name
 * @returns {Process | undefined}
 */
function readProc(name) {
  try {
    const text = readFileSync(`/proc/${name}/stat`, "latin1");
    // The fields follow the name of the program, which can contain any character.
    const [state, ...fields] = text.slice(text.lastIndexOf(")") + 2).split(" ");
    if (state === "Z" || state === "X") return undefined;
    const [parent, group, session, , foreground] = fields.map(Number);
    return { pid: parseInt(text), parent, group, session, foreground };
  } catch {
    return undefined; // the process has just ended
  }
}

/**
 * @param {string[]} which
 * @returns {Process[]}
 */
function fromPs(which) {
  const columns = ["pid=", "ppid=", "pgid=", "tpgid=", "stat="].flatMap((name) => ["-o", name]);
  const { stdout } = spawnSync("ps", [...which, ...columns], { encoding: "utf8" });
  return (stdout ?? "")
    .split("\n")
    .map((line) => line.trim().split(/\s+/))
    .filter(([pid, , , , state]) => Number(pid) > 0 && !state?.startsWith("Z"))
    .map((fields) => {
      const [pid, parent, group, foreground] = fields.map(Number);
      return { pid, parent, group, session: 0, foreground };
    });
}
