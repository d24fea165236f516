// When a process may end: an idle backend does not keep it alive, but a pending operation does.

import { expect, test } from "vitest";
import { JS, run } from "../fixtures/node.js";

const program = (body) =>
  run(`
  import { lock } from "${JS}index.js";
  import { createMemoryBackend } from "${JS}memory.js";
  const backend = createMemoryBackend();
  process.on("exit", () => console.log("exit"));
  ${body}
`);

const CLEAN = { code: 0, signal: null, stderr: "" };

test("an unused backend does not keep the process alive", async () => {
  expect(await program("")).toMatchObject({ ...CLEAN, stdout: "exit\n" });
});

test("an open backend with a held lock does not keep the process alive", async () => {
  const result = await program(`
    await backend.acquire({ key: "k", ttlMs: 600_000 });
    console.log("done");
  `);
  expect(result).toMatchObject({ ...CLEAN, stdout: "done\nexit\n" });
});

test("a waiting lock() keeps the process alive until it ends", async () => {
  const result = await program(`
    await backend.acquire({ key: "k", ttlMs: 1 });
    const acquisition = { timeoutMs: 60_000, retryDelayMs: 100, maxRetries: 1000, backoff: "fixed" };
    lock(backend, () => console.log("entered"), { key: "k", acquisition });
  `);
  expect(result).toMatchObject({ ...CLEAN, stdout: "entered\nexit\n" });
});

test("a waiting lock() keeps the process alive until it gives up", async () => {
  const result = await program(`
    await backend.acquire({ key: "k", ttlMs: 600_000 });
    lock(backend, () => {}, { key: "k", acquisition: { timeoutMs: 300 } })
      .catch((error) => console.log(error.code));
  `);
  expect(result).toMatchObject({ ...CLEAN, stdout: "AcquisitionTimeout\nexit\n" });
});

test("an aborted wait lets the process end", async () => {
  const result = await program(`
    await backend.acquire({ key: "k", ttlMs: 600_000 });
    const controller = new AbortController();
    const acquisition = { timeoutMs: 600_000, retryDelayMs: 300_000 };
    const waiting = lock(backend, () => {}, { key: "k", signal: controller.signal, acquisition });
    setImmediate(() => controller.abort());
    await waiting.catch((error) => console.log(error.code));
  `);
  expect(result).toMatchObject({ ...CLEAN, stdout: "Aborted\nexit\n" });
});

test("a finished lock() does not keep the process alive", async () => {
  const result = await program(`
    await lock(backend, () => {}, { key: "a", ttlMs: 600_000 });
    await lock(backend, () => {}, { key: "b", ttlMs: 600_000, autoExtend: true });
    console.log("done");
  `);
  expect(result).toMatchObject({ ...CLEAN, stdout: "done\nexit\n" });
});

test("a heartbeat does not keep the process alive", async () => {
  const result = await program(`
    lock(backend, () => new Promise(() => {}), { key: "k", ttlMs: 600_000, autoExtend: true });
    await new Promise((resolve) => setTimeout(resolve, 50));
    console.log("done");
  `);
  expect(result).toMatchObject({ ...CLEAN, stdout: "done\nexit\n" });
});

test("process.exit() works while operations are pending", async () => {
  const result = await program(`
    await backend.acquire({ key: "k", ttlMs: 600_000 });
    for (let i = 0; i < 100; i++) lock(backend, () => {}, { key: "k" }).catch(() => {});
    lock(backend, () => new Promise(() => {}), { key: "held", ttlMs: 100, autoExtend: true });
    setTimeout(() => process.exit(7), 50);
  `);
  expect(result).toMatchObject({ code: 7, signal: null, stderr: "", stdout: "exit\n" });
});
