// Worker threads with separate backends on the same file.

import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { expect, test } from "vitest";
import { testFolder } from "./folder.js";
import { open } from "./open.js";

const folder = testFolder();
const file = new URL("./locking-thread.js", import.meta.url);

function start(path, rounds) {
  const shared = new Int32Array(new SharedArrayBuffer(8));
  const threads = [1, 2, 3].map(() => new Worker(file, { workerData: { path, rounds, shared } }));
  return { threads, shared };
}

test("there is one holder at a time, and fences have no gaps", async () => {
  const { threads, shared } = start(folder.file(), 50);
  const fences = await Promise.all(
    threads.map(async (thread) => {
      const exit = once(thread, "exit");
      let last;
      thread.on("message", (message) => (last = message));
      expect(await exit).toEqual([0]);
      return last;
    }),
  );
  expect(shared[1]).toBe(0);
  const numbers = fences.flat().map(Number);
  expect(numbers.sort((a, b) => a - b)).toEqual(Array.from({ length: 150 }, (_, i) => i + 1));
});

test("a thread that is terminated while it works does not affect others", async () => {
  const path = folder.file();
  const { threads } = start(path, 1_000_000);
  await Promise.all(threads.map((thread) => once(thread, "message")));
  await Promise.all(threads.map((thread) => thread.terminate()));
  const backend = open({ path });
  const lock = await backend.acquire({ key: "another", ttlMs: 1_000 });
  expect(lock.ok).toBe(true);
  await lock.release();
  await backend.close();
});
