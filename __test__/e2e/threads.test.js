// Worker threads: several at once, and terminated in the middle of their work. They run in a separate
// process, because a bug could crash the whole process.

import { expect, test } from "vitest";
import { run } from "../fixtures/node.js";

const THREAD = new URL("../fixtures/thread.js", import.meta.url).href;
const API = new URL("../fixtures/api.js", import.meta.url).href;

const program = (body) =>
  run(`
  import { on, once } from "node:events";
  import { Worker } from "node:worker_threads";
  import { createMemoryBackend, lock } from "${API}";
  const start = (rounds) => new Worker(new URL("${THREAD}"), { workerData: { rounds }, execArgv: [] });
  ${body}
`);

test("several threads and the main thread work at once", async () => {
  const result = await program(`
    const results = Array.from({ length: 4 }, async () => {
      const worker = start(20);
      for await (const [message] of on(worker, "message")) {
        if (message !== "working") return message;
      }
    });
    const backend = createMemoryBackend();
    for (let i = 0; i < 100; i++) await lock(backend, () => {}, { key: "main" });
    for (const { sections, violations } of await Promise.all(results)) {
      console.log(sections, violations.length);
    }
  `);
  expect(result).toMatchObject({ code: 0, signal: null, stderr: "" });
  expect(result.stdout).toBe("200 0\n".repeat(4));
});

test("threads can be terminated repeatedly while they work", async () => {
  const result = await program(`
    const backend = createMemoryBackend();
    const holder = await backend.acquire({ key: "k", ttlMs: 600_000 });
    const survivor = lock(backend, () => "survived", {
      key: "k", acquisition: { maxRetries: 1e6, retryDelayMs: 5, timeoutMs: 600_000, backoff: "fixed" },
    });
    for (let round = 0; round < 12; round++) {
      const workers = [start(1e9), start(1e9)];
      await Promise.all(workers.map((worker) => once(worker, "message")));
      await Promise.all(workers.map((worker) => worker.terminate()));
    }
    // The main thread's own wait went on through all of it.
    await holder.release();
    console.log(await survivor);
  `);
  expect(result).toMatchObject({ code: 0, signal: null, stderr: "", stdout: "survived\n" });
}, 180_000);

test("a thread can be terminated while it loads the package", async () => {
  const result = await program(`
    for (let round = 0; round < 10; round++) {
      const worker = start(1e9);
      await once(worker, "online");
      await worker.terminate();
    }
    console.log(await lock(createMemoryBackend(), () => "fine", { key: "k" }));
  `);
  expect(result).toMatchObject({ code: 0, signal: null, stderr: "", stdout: "fine\n" });
}, 180_000);
