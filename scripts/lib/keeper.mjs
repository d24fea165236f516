// A second process that cleans up after this one. When this process ends in any way, even by SIGKILL,
// the keeper's standard input closes. It then kills the process groups and removes the directories that
// are still registered.
import { spawn } from "node:child_process";
import { rmSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const self = fileURLToPath(import.meta.url);
let keeper;

function tell(line) {
  if (process.platform === "win32") return; // Windows has no process groups.
  if (!keeper) {
    keeper = spawn(process.execPath, [self], {
      detached: true,
      stdio: ["pipe", "ignore", "ignore"],
    });
    keeper.unref();
    keeper.stdin.unref();
    // If the keeper was killed, EPIPE must not end the tests.
    keeper.stdin.on("error", () => {});
  }
  keeper.stdin.write(`${line}\n`);
}

export const guardGroup = (pid) => pid && tell(`+group ${pid}`);
export const unguardGroup = (pid) => pid && tell(`-group ${pid}`);
export const guardDirectory = (path) => tell(`+directory ${path}`);
export const unguardDirectory = (path) => tell(`-directory ${path}`);

if (process.argv[1] === self) {
  const groups = new Set();
  const directories = new Set();
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => {});
  for await (const line of createInterface({ input: process.stdin })) {
    const [, sign, kind, value] = /^([+-])(\w+) (.*)$/.exec(line);
    const set = kind === "group" ? groups : directories;
    if (sign === "+") set.add(value);
    else set.delete(value);
  }
  for (const pid of groups) {
    try {
      process.kill(-Number(pid), "SIGKILL");
    } catch {
      // Already gone.
    }
  }
  for (const path of directories) {
    rmSync(path, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
  }
}
