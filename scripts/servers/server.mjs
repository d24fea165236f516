// One server process: it counts as started when its output says so, and is always stopped.
import { spawn, spawnSync } from "node:child_process";
import { chownSync, existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { guardDirectory, guardGroup, unguardDirectory, unguardGroup } from "../lib/keeper.mjs";
import { Failure } from "../lib/run.mjs";

const START_TIMEOUT_MS = 30_000;
const STOP_TIMEOUT_MS = 10_000;

export class Server {
  #name;
  #command;
  #args;
  #ready;
  #options;
  #child;
  #exited;
  #log = "";

  /** `ready` matches the output that the program prints when it can be used. */
  constructor(name, command, args, { ready, ...options }) {
    this.#name = name;
    this.#command = command;
    this.#args = args;
    this.#ready = ready;
    this.#options = options;
  }

  get pid() {
    return this.#child?.pid;
  }

  get running() {
    return this.#child !== undefined;
  }

  /** Returns the output of the server since its last start. */
  get log() {
    return this.#log;
  }

  /** Starts the program and returns the match of `ready` in its output. */
  async start() {
    if (this.#child) throw new Error(`${this.#name} is already running`);
    // Use a separate process group, so that Ctrl-C does not stop the server before the tests end.
    const child = spawn(this.#command, this.#args, { detached: true, ...this.#options });
    guardGroup(child.pid);
    this.#log = "";
    this.#child = child;
    this.#exited = new Promise((resolve) => {
      const gone = () => {
        if (this.#child === child) this.#child = undefined;
        unguardGroup(child.pid);
        resolve();
      };
      child.once("exit", gone);
      child.once("error", (error) => {
        this.#log += String(error);
        gone();
      });
    });
    child.stdin.on("error", () => {});
    const ready = new Promise((resolve) => {
      const look = (chunk) => {
        this.#log = (this.#log + chunk).slice(-100_000);
        const match = this.#ready.exec(this.#log);
        if (match) resolve(match);
      };
      child.stdout.setEncoding("utf8").on("data", look);
      child.stderr.setEncoding("utf8").on("data", look);
    });
    const late = AbortSignal.timeout(START_TIMEOUT_MS);
    const timedOut = new Promise((resolve) => late.addEventListener("abort", () => resolve()));
    const match = await Promise.race([ready, this.#exited, timedOut]);
    if (!match) {
      await this.kill();
      throw new Failure(`${this.#name} did not start:\n${this.#log.trimEnd()}`);
    }
    for (const stream of [child, child.stdin, child.stdout, child.stderr]) stream.unref();
    return match;
  }

  /** Shuts the server down in an orderly way. */
  async stop(signal = "SIGTERM") {
    this.#signal(signal);
    this.#signal("SIGCONT"); // A suspended server would not react to the signal.
    // The timer keeps this process alive until the server has ended; the server itself does not.
    const timer = setTimeout(() => this.#signal("SIGKILL"), STOP_TIMEOUT_MS);
    await this.#exited;
    clearTimeout(timer);
  }

  /** Kills the server, as a crash would. */
  async kill() {
    await this.stop("SIGKILL");
  }

  /** Suspends the server: it stays alive with open connections, but does nothing. */
  suspend() {
    this.#signal("SIGSTOP");
  }

  resume() {
    this.#signal("SIGCONT");
  }

  #signal(signal) {
    const pid = this.#child?.pid;
    if (!pid) return;
    // PostgreSQL's children leave the group. In an orderly shutdown the server ends them itself.
    const children = ["SIGKILL", "SIGSTOP", "SIGCONT"].includes(signal) ? childrenOf(pid) : [];
    for (const target of [-pid, ...children]) {
      try {
        process.kill(target, signal);
      } catch {
        // Already gone.
      }
    }
  }
}

/** The methods of every started server. `signal` shuts it down; its directory is removed with it. */
export function controls(server, { directory, signal = "SIGTERM" } = {}) {
  return {
    async stop() {
      await server.stop(signal);
      directory?.remove();
    },
    kill: () => server.kill(),
    async restart() {
      await server.stop(signal);
      await server.start();
    },
    suspend: () => server.suspend(),
    resume: () => server.resume(),
  };
}

function childrenOf(pid) {
  const list = `/proc/${pid}/task/${pid}/children`;
  if (!existsSync(list)) return [];
  return readFileSync(list, "latin1").split(" ").filter(Boolean).map(Number);
}

/** Creates a temporary directory that `remove()` or the end of this process removes. */
export function temporaryDirectory(owner) {
  const path = mkdtempSync(join(tmpdir(), "syncguard-"));
  guardDirectory(path);
  if (owner) chownSync(path, owner.uid, owner.gid);
  return {
    path,
    remove() {
      rmSync(path, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
      unguardDirectory(path);
    },
  };
}

/**
 * Some servers refuse to run as root. Returns the user to run them as, as `spawn` options.
 */
export function unprivileged() {
  if (process.getuid?.() !== 0) return {};
  for (const user of ["postgres", "nobody"]) {
    const [uid, gid] = ["-u", "-g"].map((flag) =>
      Number(spawnSync("id", [flag, user], { encoding: "utf8" }).stdout || NaN),
    );
    if (uid > 0) return { uid, gid };
  }
  throw new Failure("There is no user `postgres` or `nobody` to run PostgreSQL as.");
}

/** Polls until the condition is true. The run fails if that takes too long. */
export async function eventually(what, ask) {
  const deadline = Date.now() + START_TIMEOUT_MS;
  while (!(await ask())) {
    if (Date.now() > deadline) throw new Failure(`Waited in vain until ${what}.`);
    await sleep(50);
  }
}
