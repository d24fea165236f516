// The worker processes of a run. Each slot has one process at a time, which may be killed, stopped or
// given another time of day.

import { fork } from "node:child_process";
import { once } from "node:events";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { guardGroup, unguardGroup } from "../scripts/lib/keeper.mjs";
import { which } from "../scripts/lib/run.mjs";
import { now } from "./history.mjs";

const WORKER = new URL("./worker.mjs", import.meta.url);
const END_TIMEOUT_MS = 45_000;

/** Finds the library that sets the clock of one process, if it is installed. */
export function fakeTime() {
  const folders = ["x86_64", "aarch64"].map((arch) => `/usr/lib/${arch}-linux-gnu/faketime`);
  return which("libfaketimeMT.so.1", folders);
}

/** Removes what the library leaves of a killed process: a later one with the same pid would fail. */
function clearFakeTime(pid) {
  for (const name of ["faketime_shm", "sem.faketime_sem"])
    rmSync(`/dev/shm/${name}_${pid}`, { force: true });
}

export class Place {
  #index;
  #job;
  #tell;
  #count = 0;
  #child;
  #ended = true;
  #isOver = false;
  #clock;

  /** `clock` says whether the time of day can be set. */
  constructor(index, job, { tell, clock }) {
    this.#index = index;
    this.#job = job;
    this.#tell = tell;
    if (clock) this.#clock = join(job.folder, `clock-${index}`);
  }

  get name() {
    return `${this.#index}.${this.#count}`;
  }

  /** Resolves when the workers have started. */
  async start() {
    if (this.#isOver) return;
    this.#count += 1;
    this.#ended = false;
    const { name } = this;
    const { NODE_OPTIONS, ...env } = process.env;
    if (this.#clock) this.#setClock(0);
    const child = fork(WORKER, [JSON.stringify({ ...this.#job, process: name })], {
      env: { ...env, NODE_ENV: "production", ...(this.#clock && this.#clockEnv()) },
      stdio: ["ignore", "ignore", "pipe", "ipc"],
      detached: true,
    });
    this.#child = child;
    guardGroup(child.pid);
    this.#tell("spawn", { w: name });
    let said = "";
    child.stderr.on("data", (data) => (said = (said + data).slice(-4_000)));
    child.once("exit", (code, signal) => {
      unguardGroup(child.pid);
      if (this.#clock) clearFakeTime(child.pid);
      this.#tell("exit", { w: name, code, signal, said });
      if (this.#child === child) this.#ended = true;
    });
    await Promise.race([once(child, "message"), once(child, "exit")]);
  }

  #clockEnv() {
    return {
      LD_PRELOAD: fakeTime(),
      FAKETIME_TIMESTAMP_FILE: this.#clock,
      FAKETIME_CACHE_DURATION: "1",
      // Set the time of day only, not the clock of deadlines and of the record.
      FAKETIME_DONT_FAKE_MONOTONIC: "1",
    };
  }

  #setClock(seconds) {
    writeFileSync(this.#clock, `${seconds < 0 ? "" : "+"}${seconds}\n`);
  }

  #signal(signal) {
    this.#tell("sent", { w: this.name, signal });
    this.#child.kill(signal);
  }

  async kill(ms) {
    if (this.#ended) return this.start();
    const gone = once(this.#child, "exit");
    this.#signal("SIGKILL");
    await gone;
    await sleep(ms);
    await this.start();
  }

  async pause(ms) {
    if (this.#ended) return this.start();
    const { name } = this;
    const from = now();
    this.#signal("SIGSTOP");
    await sleep(ms);
    this.#signal("SIGCONT");
    this.#tell("stopped", { w: name, from, to: now() });
  }

  /** Sets the clock off for some time, and waits `settleMs` until what was stored meanwhile expires. */
  async stepClock(stepMs, ms, settleMs = 0) {
    this.#setClock(stepMs / 1000);
    await sleep(ms);
    this.#setClock(0);
    await sleep(1_000 + settleMs); // The library reads its file once a second.
  }

  /** Replaces a process that died by itself. The run continues, and the checks report the death. */
  async revive() {
    if (this.#ended) await this.start();
  }

  /** Resolves when the process has ended. Kills it if it does not end by itself. */
  async end() {
    if (this.#ended) return;
    const gone = once(this.#child, "exit");
    this.#child.send("end");
    const late = setTimeout(() => {
      this.#tell("hung", { w: this.name });
      this.#signal("SIGKILL");
    }, END_TIMEOUT_MS);
    await gone;
    clearTimeout(late);
  }

  destroy() {
    this.#isOver = true;
    if (!this.#ended) this.#child.kill("SIGKILL");
  }
}
