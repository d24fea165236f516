// Requests are written and answers are read on the JavaScript thread: what happens when that thread
// is busy, ends, or loses only this connection.

import { execFileSync } from "node:child_process";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { startRedis } from "../../scripts/servers.mjs";
import { lock } from "../fixtures/api.js";
import { JS, run } from "../fixtures/node.js";
import { until } from "../fixtures/wait.js";
import { open, prefix } from "./open.js";

const ttlMs = 30_000;
const sleepBusily = (ms) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);

let server;
beforeAll(async () => void (server = await startRedis()));
afterAll(() => server.stop());

const cli = (...args) =>
  execFileSync("redis-cli", ["-p", String(server.port), ...args], { encoding: "utf8" }).trim();
const connections = (name) =>
  cli("client", "list")
    .split("\n")
    .filter((line) => line.includes(` name=${name} `))
    .map((line) => /^id=(\d+)/.exec(line)[1]);

describe("in this process", () => {
  let backend, connectionName, keyPrefix;
  beforeEach(async () => {
    [connectionName, keyPrefix] = [prefix(), prefix()];
    backend = open({
      target: { port: server.port, connectionName },
      keyPrefix,
      operationTimeoutMs: 300,
    });
    await works();
    // The connection for this thread follows the first one.
    await until(() => connections(connectionName).length === 2, "both connections");
    return () => backend.close();
  });

  const works = async (key = "works") => {
    const held = await backend.acquire({ key, ttlMs });
    expect(held.ok).toBe(true);
    expect(await held.release()).toEqual({ ok: true });
  };

  test("an answer that came in time is not late because the thread was busy", async () => {
    const acquiring = backend.acquire({ key: "busy", ttlMs });
    sleepBusily(1500);
    const held = await acquiring;
    expect(held.ok).toBe(true);
    expect(await held.release()).toEqual({ ok: true });
  });

  test("a heartbeat goes on while the thread is busy", async () => {
    const lost = await lock(
      backend,
      ({ signal }) => {
        sleepBusily(2500);
        expect(Number(cli("pttl", `${keyPrefix}:beating`))).toBeGreaterThan(0);
        return signal.aborted;
      },
      { key: "beating", ttlMs: 600, autoExtend: true },
    );
    expect(lost).toBe(false);
  });

  test("what is gathered for one write is written although the thread gets busy", async () => {
    const keys = Array.from({ length: 8 }, (_, index) => `gathered:${index}`);
    const held = await Promise.all(keys.map((key) => backend.acquire({ key, ttlMs })));
    // The answers come together; the last one's continuation keeps the thread.
    await Promise.all(
      held.map(async (one, index) => {
        await one.extend(ttlMs);
        const releasing = one.release();
        if (index === keys.length - 1) {
          const giveUpAt = performance.now() + 20_000;
          const names = keys.map((key) => `${keyPrefix}:${key}`);
          while (cli("exists", ...names) !== "0" && performance.now() < giveUpAt);
          expect(cli("exists", ...names)).toBe("0");
        }
        expect(await releasing).toEqual({ ok: true });
      }),
    );
  });

  test("either connection may break alone: both are replaced", async () => {
    for (const which of [0, 1]) {
      cli("client", "kill", "id", connections(connectionName)[which]);
      // Whoever is told of the loss is told once.
      await backend.isLocked({ key: "in between" }).catch(() => {});
      for (let round = 0; round < 20; round++) await works();
      await until(() => connections(connectionName).length === 2, "both connections");
    }
  });

  test("thousands at once, larger than any buffer", async () => {
    const patient = open({ target: server.url, keyPrefix, operationTimeoutMs: 60_000 });
    const before = cli("client", "list").split("\n").length;
    await (await patient.acquire({ key: "first", ttlMs })).release();
    await until(() => cli("client", "list").split("\n").length === before + 2, "both connections");
    const long = "x".repeat(400);
    const all = Array.from({ length: 20_000 }, async (_, index) => {
      const held = await patient.acquire({ key: `${long}:${index}`, ttlMs });
      return held.ok && (await held.release()).ok;
    });
    expect((await Promise.all(all)).every(Boolean)).toBe(true);
    await patient.close();
  });
});

const program = (body) =>
  run(`
    import { once } from "node:events";
    import { Worker } from "node:worker_threads";
    import { createRedisBackend } from "${JS}redis.js";
    const url = "${server.url}";
    const load = \`
      const { parentPort } = await import("node:worker_threads");
      import("${JS}redis.js").then(async ({ createRedisBackend }) => {
        const backend = createRedisBackend("${server.url}", { keyPrefix: "worker" });
        let pairs = 0;
        const lane = async (index) => {
          for (;;) {
            const held = await backend.acquire({ key: "k" + index + Math.random(), ttlMs: 5000 });
            await held.release();
            if (++pairs === 2000) parentPort.postMessage("working");
          }
        };
        for (let index = 0; index < 32; index++) lane(index);
      });
    \`;
    ${body}
  `);

test("threads that are terminated under load do not take the process with them", async () => {
  const result = await program(`
    const backend = createRedisBackend(url);
    for (let round = 0; round < 8; round++) {
      const workers = [0, 1].map(() => new Worker(load, { eval: true }));
      await Promise.all(workers.map((worker) => once(worker, "message")));
      await Promise.all(workers.map((worker) => worker.terminate()));
      const held = await backend.acquire({ key: "main", ttlMs: 30_000 });
      await held.release();
    }
    console.log("survived");
  `);
  expect(result).toMatchObject({ code: 0, signal: null, stderr: "", stdout: "survived\n" });
}, 180_000);

test("a process with an open backend ends by itself, and may exit under load", async () => {
  const idle = await program(`
    const backend = createRedisBackend(url);
    for (let round = 0; round < 50; round++) {
      const held = await backend.acquire({ key: "idle", ttlMs: 30_000 });
      await held.release();
    }
    console.log("done");
  `);
  expect(idle).toMatchObject({ code: 0, signal: null, stderr: "", stdout: "done\n" });
  const loaded = await program(`
    const backend = createRedisBackend(url);
    const lane = async (index) => {
      for (;;) {
        const held = await backend.acquire({ key: "exit" + index, ttlMs: 30_000 });
        await held.release();
      }
    };
    for (let index = 0; index < 64; index++) lane(index);
    setTimeout(() => process.exit(7), 500);
  `);
  expect(loaded).toMatchObject({ code: 7, signal: null, stderr: "" });
});
