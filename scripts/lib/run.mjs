// Running other programs: one place that knows the repository root, npm's own
// path and how to say in one sentence that something is missing.
import { spawn, spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";
import { guardGroup, unguardGroup } from "./keeper.mjs";

export const root = fileURLToPath(new URL("../..", import.meta.url));
/** Where cargo puts what it builds. */
export const cargoTarget = process.env.CARGO_TARGET_DIR ?? join(root, "target");
const windows = process.platform === "win32";

/** A failure the user can act on: printed without a stack. */
export class Failure extends Error {
  constructor(message, exitCode = 1) {
    super(message);
    this.exitCode = exitCode;
  }
}

/** Of several that failed, each says why. */
export function failTogether(failures) {
  if (failures.length === 0) return;
  const text = failures.map(({ message }) => message).join("\n");
  throw new Failure(text, failures.at(-1).exitCode);
}

/** Runs a script's main function; a `Failure` becomes one sentence on stderr. */
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
 * npm passes a signal on to the shell it runs us in, and that shell dies
 * without a word to us: so we look whether it is still there.
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

/** The full path of a program in PATH or in one of the extra directories. */
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
 * Runs a program to its end with our terminal. It leads a process group of its
 * own: a signal that reaches only us (or kills us) then still ends all of its
 * children, which Ctrl-C in a terminal alone would not guarantee.
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
      // What the program left behind in its group goes with it.
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

/** Runs a program and returns what it printed; throws when it fails. */
export function output(command, args, options = {}) {
  const result = spawnSync(command, args, { cwd: root, encoding: "utf8", ...options });
  if (result.error) throw new Failure(`Cannot run ${command}: ${result.error.message}`);
  if (result.status !== 0) {
    throw new Failure(`Failed: ${command} ${args.join(" ")}\n${result.stdout}${result.stderr}`);
  }
  return result.stdout;
}

/** Runs npm, also where `npm` is a script that cannot be spawned (Windows). */
export function npm(args, options) {
  const [command, before, how] = npmCommand();
  return run(command, [...before, ...args], { ...how, ...options });
}

/** What npm printed, whether it failed or not. */
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

/** Without Rust there is nothing to run: says so in one sentence. */
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

/** Runs a program that a dependency in node_modules brings, by its JS file. */
export function tool(file, args, options) {
  return run(process.execPath, [join(root, "node_modules", file), ...args], options);
}
