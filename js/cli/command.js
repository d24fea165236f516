// Starts and ends the command that runs while the lock is held, with all of its processes.

import { spawn, spawnSync } from "node:child_process";
import { constants } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { isatty } from "node:tty";
import { inherited, markOf, variablesOf } from "./environment.js";
import { EXIT, Ended } from "./exit.js";
import { hasVariable, processes, thisProcess } from "./processes.js";

/** @typedef {import("node:child_process").ChildProcess} ChildProcess */
/** @typedef {import("./environment.js").Lock} Lock */

const POLL_MS = 20;
/** How long to wait for killed processes to end. */
const KILL_TIMEOUT_MS = 2000;
/** Signals that a terminal sends to all processes in its foreground. */
const FROM_KEYBOARD = ["SIGINT", "SIGQUIT", "SIGBREAK"];
/** Signals that go to all processes of the command. The others go to the command alone. */
const FOR_ALL = [...FROM_KEYBOARD, "SIGTERM", "SIGHUP", "SIGTSTP", "SIGCONT"];

/**
 * Without a terminal, the command leads a process group of its own, so that all of it can be ended. With
 * one, it stays in our group: a background group could not read from the terminal.
 */
export class Command {
  #child;
  #mark;
  /** The exit code, as a shell reports it.
   * @type {Promise<number>} */
  ended;

  /**
   * @param {ChildProcess} child
   * @param {boolean} isApart
   * @param {string} mark an environment variable that only its processes have
   */
  constructor(child, isApart, mark) {
    this.#child = child;
    this.isApart = isApart;
    this.#mark = mark;
    this.ended = new Promise((resolve) => {
      child.once("exit", (code, signal) => resolve(code ?? exitCodeOf(signal)));
    });
  }

  /** Returns whether a command gets a process group of its own: only if no terminal signals both. */
  static startsApart() {
    return process.platform !== "win32" && ![0, 1, 2].some((fd) => isatty(fd));
  }

  /**
   * @param {string[]} command
   * @param {Lock[]} locks that are held while the command runs
   * @returns {Promise<Command>}
   */
  static start([file, ...args], locks) {
    const isApart = Command.startsApart();
    return new Promise((resolve, reject) => {
      const fail = (/** @type {NodeJS.ErrnoException} */ { code }) =>
        reject(
          code === "ENOENT"
            ? new Ended(EXIT.NOT_FOUND, "The command was not found: check its name and PATH.")
            : new Ended(
                EXIT.CANNOT_RUN,
                `The command cannot be run (${code}): check that it is executable.`,
              ),
        );
      try {
        const child = spawn(file, args, {
          stdio: "inherit",
          detached: isApart,
          env: { ...inherited(), ...variablesOf(locks) },
        });
        const command = new Command(child, isApart, markOf(locks));
        child.once("error", fail).once("spawn", () => resolve(command));
      } catch (error) {
        fail(/** @type {NodeJS.ErrnoException} */ (error));
      }
    });
  }

  /**
   * Passes on a signal that this process received.
   * @param {NodeJS.Signals} signal
   */
  pass(signal) {
    if (FROM_KEYBOARD.includes(signal) && this.#hasTerminal()) return;
    // A process group without a terminal ignores SIGTSTP.
    const sent = signal === "SIGTSTP" ? "SIGSTOP" : signal;
    if (FOR_ALL.includes(signal)) this.#signalAll(sent);
    else this.#child.kill(sent);
  }

  /** Returns whether the terminal sends its signals to the command directly. */
  #hasTerminal() {
    if (this.isApart) return false;
    if (process.platform === "win32") return true;
    const { group, foreground } = thisProcess() ?? {};
    return group === foreground;
  }

  /** @param {NodeJS.Signals} signal */
  #signalAll(signal) {
    if (process.platform === "win32") {
      // Windows has no signals: only an end can be passed on.
      spawnSync("taskkill", ["/PID", String(this.#child.pid), "/T", "/F"], { stdio: "ignore" });
    } else if (this.isApart) {
      send(-(/** @type {number} */ (this.#child.pid)), signal);
    } else {
      for (const pid of this.#family()) send(pid, signal);
    }
  }

  /** Returns the processes of the command, if they share a process group with others. */
  #family() {
    const all = processes();
    const own = thisProcess();
    const family = new Set([/** @type {number} */ (this.#child.pid)]);
    // Repeated until no more are found, because a parent may be listed after its child.
    for (let size = 0; size < family.size;) {
      size = family.size;
      for (const { pid, parent } of all) if (family.has(parent)) family.add(pid);
    }
    return (
      all
        .filter(({ session, pid }) => session === own?.session && pid !== own.pid)
        .map(({ pid }) => pid)
        // A process whose parent has ended is recognised by its environment.
        .filter((pid) => family.has(pid) || hasVariable(pid, this.#mark))
    );
  }

  #isGone() {
    const { pid, exitCode, signalCode } = this.#child;
    if (exitCode === null && signalCode === null) return false;
    if (process.platform === "win32") return true;
    if (!this.isApart) return this.#family().length === 0;
    // The quick check also finds zombies: processes that have ended but were not waited for.
    if (!send(-(/** @type {number} */ (pid)), 0)) return true;
    return process.platform === "linux" && !processes().some(({ group }) => group === pid);
  }

  /** @param {number} ms */
  async #isGoneWithin(ms) {
    const until = performance.now() + ms;
    while (!this.#isGone()) {
      if (performance.now() >= until) return false;
      await sleep(POLL_MS);
    }
    return true;
  }

  /**
   * Ends whatever is still running.
   * @param {number} killAfterMs
   */
  async end(killAfterMs) {
    if (this.#isGone()) return;
    this.#signalAll("SIGTERM");
    // A stopped process must continue before it can end.
    this.#signalAll("SIGCONT");
    if (await this.#isGoneWithin(killAfterMs)) return;
    this.#signalAll("SIGKILL");
    await this.#isGoneWithin(KILL_TIMEOUT_MS);
  }
}

/**
 * @param {number} pid
 * @param {NodeJS.Signals | 0} signal
 * @returns {boolean} whether there was a process to receive it
 */
function send(pid, signal) {
  try {
    return process.kill(pid, signal);
  } catch (error) {
    return /** @type {NodeJS.ErrnoException} */ (error).code === "EPERM";
  }
}

/** @param {NodeJS.Signals | null} signal */
export function exitCodeOf(signal) {
  return 128 + (signal === null ? 0 : constants.signals[signal]);
}
