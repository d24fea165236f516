// Runs other programs. This is the one place that knows the repository root and npm's path, and how to
// report a missing program in one sentence.
import { spawn, spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";
import { guardGroup, unguardGroup } from "./keeper.mjs";

export const root = fileURLToPath(new URL("../..", import.meta.url));
/** Cargo's output folder. */
export const cargoTarget = process.env.CARGO_TARGET_DIR ?? join(root, "target");
const windows = process.platform === "win32";

/** A failure that the user can act on. It is printed without a stack. */
export class Failure extends Error {
  constructor(message, exitCode = 1) {
    super(message);
    this.exitCode = exitCode;
  }
}

/** Combines several failures into one that lists all reasons. */
export function failTogether(failures) {
  if (failures.length === 0) return;
  const text = failures.map(({ message }) => message).join("\n");
  throw new Failure(text, failures.at(-1).exitCode);
}

/** Runs a script's main function, and prints a `Failure` as one sentence to stderr. */
export async function main(run) {
  endWithNpm();
  try {
    await run();
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    if (error.message) console.error(error.message);
    process.exitCode = error.exitCode;
  }
}

/**
 * npm forwards a signal only to the shell that runs this script. The shell dies without notifying us,
 * so this function checks whether it still exists.
 */
function endWithNpm() {
  if (windows || !process.env.npm_lifecycle_event) return;
  const parent = process.ppid;
  const watch = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(watch);
    process.kill(process.pid, "SIGTERM");
  }, 500);
  watch.unref();
}

/** Finds the full path of a program in PATH or in one of the extra directories. */
export function which(name, extraDirs = []) {
  const dirs = [...(process.env.PATH ?? "").split(delimiter), ...extraDirs];
  const names = windows ? [`${name}.exe`, `${name}.cmd`] : [name];
  for (const dir of dirs) {
    for (const file of names) {
      if (dir && existsSync(join(dir, file))) return join(dir, file);
    }
  }
  return undefined;
}

/**
 * Runs a program in our terminal until it ends. The program leads a process group of its own, so that
 * a signal that only we receive (or that kills us) still ends all of its children.
 */
export function run(command, args, options = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, {
      cwd: root,
      stdio: "inherit",
      detached: !windows,
      ...options,
      env: { ...process.env, ...options.env },
    });
    guardGroup(child.pid);
    let signalled;
    const forward = (signal) => {
      if (signalled) return;
      signalled = signal;
      kill(child, signal);
      setTimeout(() => kill(child, "SIGKILL"), 5000).unref();
    };
    process.on("SIGINT", forward).on("SIGTERM", forward).on("SIGHUP", forward);
    const finish = (act) => {
      process.off("SIGINT", forward).off("SIGTERM", forward).off("SIGHUP", forward);
      // End the processes that the program has left in its group.
      if (child.pid) kill(child, "SIGKILL");
      unguardGroup(child.pid);
      act();
    };
    child.on("error", (error) =>
      finish(() => reject(new Failure(`Cannot run ${command}: ${error.message}`))),
    );
    child.on("exit", (code, signal) =>
      finish(() => {
        if (signalled) return reject(new Failure(`Stopped by ${signalled}.`, 130));
        if (code === 0) return resolve();
        const what = `${command} ${args.join(" ")}`;
        reject(new Failure(`Failed: ${what} (${signal ?? `exit ${code}`})`, code || 1));
      }),
    );
  });
}

function kill(child, signal) {
  try {
    if (windows) child.kill(signal);
    else process.kill(-child.pid, signal);
  } catch {
    // Already gone.
  }
}

/** Runs a program and returns its output. Throws if it fails. */
export function output(command, args, options = {}) {
  const result = spawnSync(command, args, { cwd: root, encoding: "utf8", ...options });
  if (result.error) throw new Failure(`Cannot run ${command}: ${result.error.message}`);
  if (result.status !== 0) {
    throw new Failure(`Failed: ${command} ${args.join(" ")}\n${result.stdout}${result.stderr}`);
  }
  return result.stdout;
}

/** Runs npm, even where `npm` is a script that cannot be spawned (Windows). */
export function npm(args, options) {
  const [command, before, how] = npmCommand();
  return run(command, [...before, ...args], { ...how, ...options });
}

/** Runs npm and returns its output, whether it failed or not. */
export function npmOutput(args) {
  const [command, before, how] = npmCommand();
  const options = { cwd: root, encoding: "utf8", ...how };
  return spawnSync(command, [...before, ...args], options).stdout ?? "";
}

function npmCommand() {
  const cli = process.env.npm_execpath;
  if (cli && existsSync(cli)) return [process.execPath, [cli], {}];
  return [windows ? "npm.cmd" : "npm", [], { shell: windows }];
}

/** Throws a failure with one sentence if Rust is not installed. */
export function requireCargo() {
  if (which("cargo")) return;
  throw new Failure(
    "SyncGuard is built from source with Rust, but `cargo` was not found: install Rust (https://rustup.rs) and run this again.",
  );
}

export async function cargo(args, options) {
  requireCargo();
  await run("cargo", args, options);
}

/** Runs the JavaScript file of a program in node_modules. */
export function tool(file, args, options) {
  return run(process.execPath, [join(root, "node_modules", file), ...args], options);
}
