// The event loop of a process is blocked while the process waits for a lock, holds it, or releases it.
// These tests check what another process sees.

import { fork } from "node:child_process";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, describe, expect, test } from "vitest";
import { collections } from "../firestore/open.js";
import { NOISE_MS, until } from "../fixtures/wait.js";
import { tables } from "../postgres/open.js";
import { prefix } from "../redis/open.js";
import { testFolder } from "../sqlite/folder.js";

const PROGRAM = new URL("../fixtures/busy-process.js", import.meta.url);
const folder = testFolder();

const BACKENDS = {
  redis: { config: () => ({ keyPrefix: prefix() }), toleranceMs: 0 },
  postgres: { config: tables, toleranceMs: 1_000 },
  sqlite: { config: () => ({ path: folder.file() }), toleranceMs: 1_000 },
  firestore: { config: collections, toleranceMs: 1_000 },
};
const MODES = ["plain", "telemetry", "onEvent"];
const key = "k";

const children = [];
afterAll(() => children.forEach((child) => child.kill("SIGKILL")));

/** Starts a busy process. Returns it with its messages, and a backend on the same locks. */
async function start(name, options) {
  const { config, toleranceMs } = BACKENDS[name];
  const module = new URL(`../${name}/open.js`, import.meta.url).href;
  const shared = config();
  const { open } = await import(module);
  const backend = await open(shared);
  const job = { module, config: shared, mode: "plain", key, autoExtend: false, ...options };
  const launch = () => {
    const child = fork(PROGRAM, [JSON.stringify(job)], { stdio: ["ignore", 2, 2, "ipc"] });
    children.push(child);
    const told = {};
    child.on("message", (message) => Object.assign(told, message));
    const exit = once(child, "exit");
    const heard = (what) => until(() => told[what] || child.exitCode !== null, what);
    return { told, heard, goOn: () => child.send("go on"), exit };
  };
  return { backend, toleranceMs, launch };
}

async function end(backend, exit) {
  expect(await exit).toEqual([0, null]);
  await backend.close();
}

describe.concurrent.each(Object.keys(BACKENDS))("%s", (name) => {
  test.each(MODES)(
    "holding, with a heartbeat, %s: no other process acquires the lock",
    async (mode) => {
      const job = { mode, phase: "holding", ttlMs: 1_000, autoExtend: true, blockMs: 2_500 };
      const { backend, launch } = await start(name, job);
      const { told, heard, goOn, exit } = launch();
      await heard("blocking");
      for (let attempts = 0; attempts < 20 || !told.blocked; attempts++) {
        expect((await backend.acquire({ key, ttlMs: 60_000 })).ok).toBe(false);
        await sleep(5);
      }
      expect(told.blocked).toEqual({ isHeld: true });
      goOn();
      await end(backend, exit);
    },
    60_000,
  );

  test("holding without a heartbeat: the process learns of the loss, and another acquires the lock in time", async () => {
    const job = { phase: "holding", ttlMs: 1_000, blockMs: 4_000 };
    const { backend, toleranceMs, launch } = await start(name, job);
    const { told, heard, goOn, exit } = launch();
    await heard("blocking");
    const since = performance.now();
    const taken = await until(async () => {
      const granted = await backend.acquire({ key, ttlMs: 60_000 });
      return granted.ok && granted;
    });
    expect(performance.now() - since).toBeLessThan(1_000 + toleranceMs + NOISE_MS);
    expect(taken.fence > told.fence).toBe(true);
    await heard("blocked");
    expect(told.blocked).toEqual({ isHeld: false, lost: "LockLost" });
    goOn();
    await heard("ended");
    expect((await taken.release()).ok).toBe(true);
    await end(backend, exit);
  }, 60_000);

  test("ending: the lock is released while the thread is blocked", async () => {
    const job = { phase: "ending", ttlMs: 60_000, blockMs: 6_000 };
    const { backend, launch } = await start(name, job);
    // The server must know the script. To learn that takes an answer, and a thread that reads it.
    await (await backend.acquire({ key, ttlMs: 1_000 })).release();
    const { heard, exit } = launch();
    await heard("blocking");
    const since = performance.now();
    await until(async () => !(await backend.isLocked({ key })));
    expect(performance.now() - since).toBeLessThan(NOISE_MS);
    await end(backend, exit);
  }, 60_000);

  test.each([true, false])(
    "waiting, heartbeat %s: the lock is certainly held when the function is called",
    async (autoExtend) => {
      const job = { phase: "waiting", ttlMs: 600, autoExtend, blockMs: 2_500 };
      const { backend, launch } = await start(name, job);
      const held = await backend.acquire({ key, ttlMs: 60_000 });
      const { told, heard, exit } = launch();
      await heard("blocking");
      expect(told.entered).toBeUndefined();
      await held.release();
      await heard("entered");
      expect(told.entered).toMatchObject({ isHeld: true, aborted: false });
      expect(told.entered.fence > held.fence).toBe(true);
      await heard("ended");
      await until(async () => !(await backend.isLocked({ key })));
      await end(backend, exit);
    },
    60_000,
  );
});
