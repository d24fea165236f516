// The JavaScript thread writes requests and reads answers. These tests make it busy, end it, or break
// only its connection.

import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { connect, createServer } from "node:net";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { startRedis } from "../../scripts/servers.mjs";
import { rejection } from "../contracts/setup.js";
import { lock } from "../fixtures/api.js";
import { busyThread } from "../fixtures/busy-thread.js";
import { JS, run } from "../fixtures/node.js";
import { block, until } from "../fixtures/wait.js";
import { open, prefix } from "./open.js";

const ttlMs = 30_000;

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
    // The connection for this thread is opened after the first one.
    await until(() => connections(connectionName).length === 2, "both connections");
    return () => backend.close();
  });

  const works = async (key = "works") => {
    const held = await backend.acquire({ key, ttlMs });
    expect(held.ok).toBe(true);
    expect(await held.release()).toEqual({ ok: true });
  };

  busyThread(() => backend);

  test("a script that is new to the server runs even if the thread becomes busy", async () => {
    const held = await backend.acquire({ key: "new", ttlMs });
    cli("script", "flush");
    const extending = held.extend(2 * ttlMs);
    block(1000);
    expect(Number(cli("pttl", `${keyPrefix}:new`))).toBeGreaterThan(ttlMs);
    expect(await extending).toMatchObject({ ok: true });
    expect(await held.release()).toEqual({ ok: true });
  });

  test("heartbeats continue while the thread is busy", async () => {
    const lost = await lock(
      backend,
      ({ signal }) => {
        block(3500);
        expect(Number(cli("pttl", `${keyPrefix}:beating`))).toBeGreaterThan(0);
        return signal.aborted;
      },
      { key: "beating", ttlMs: 2_000, autoExtend: true },
    );
    expect(lost).toBe(false);
  });

  test("requests that are gathered for one write are written even if the thread becomes busy", async () => {
    const keys = Array.from({ length: 8 }, (_, index) => `gathered:${index}`);
    const held = await Promise.all(keys.map((key) => backend.acquire({ key, ttlMs })));
    // The answers come together, and the continuation of the last one keeps the thread busy.
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

  test("if either connection breaks, both are replaced", async () => {
    for (const which of [0, 1]) {
      cli("client", "kill", "id", connections(connectionName)[which]);
      // A caller meets the loss only once.
      await backend.isLocked({ key: "in between" }).catch(() => {});
      for (let round = 0; round < 20; round++) await works();
      await until(() => connections(connectionName).length === 2, "both connections");
    }
  });

  test("thousands at once, larger than any buffer", async () => {
    const connectionName = prefix();
    const patient = open({
      target: { port: server.port, connectionName },
      keyPrefix,
      operationTimeoutMs: 60_000,
    });
    await (await patient.acquire({ key: "first", ttlMs })).release();
    await until(() => connections(connectionName).length === 2, "both connections");
    const long = "x".repeat(400);
    const all = Array.from({ length: 20_000 }, async (_, index) => {
      const held = await patient.acquire({ key: `${long}:${index}`, ttlMs });
      return held.ok && (await held.release()).ok;
    });
    expect((await Promise.all(all)).every(Boolean)).toBe(true);
    await patient.close();
  });
});

/**
 * Forwards bytes until `resetting`. Then it answers only the first of two requests on the connection for
 * this thread, and resets the connection in the same moment.
 */
async function startProxy(port) {
  const state = { accepted: 0, served: 0, resetting: false };
  const sockets = new Set();
  const server = createServer((client) => {
    const isForThisThread = ++state.accepted === 2;
    const upstream = connect(port, "127.0.0.1");
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => [client, upstream].forEach((socket) => socket.destroy()));
    }
    let held = "";
    client.on("data", (data) => {
      if (isForThisThread && data.includes("EVALSHA")) state.served += 1;
      if (!isForThisThread || !state.resetting) return upstream.write(data);
      held += data.toString("latin1");
      const requests = held.split(/(?=\*\d+\r\n\$7\r\nEVALSHA)/);
      if (requests.length === 2) upstream.write(requests[0], "latin1");
    });
    upstream.on("data", (data) => {
      client.write(data);
      if (isForThisThread && state.resetting) client.resetAndDestroy();
    });
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  return Object.assign(state, {
    port: server.address().port,
    stop() {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  });
}

test("after an answer and a reset, the other request fails at once", async () => {
  const between = await startProxy(server.port);
  const backend = open({
    target: { port: between.port },
    keyPrefix: prefix(),
    operationTimeoutMs: 25_000,
  });
  await until(async () => {
    await backend.isLocked({ key: "k" });
    return between.served > 0;
  }, "the connection for this thread");
  between.resetting = true;
  const started = performance.now();
  const answered = backend.isLocked({ key: "k" });
  const lost = rejection(backend.isLocked({ key: "k" }));
  expect(await answered).toBe(false);
  expect((await lost).code).toBe("ServiceUnavailable");
  expect(performance.now() - started).toBeLessThan(5000);
  expect(await backend.isLocked({ key: "k" })).toBe(false);
  await backend.close();
  between.stop();
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

test("threads that are terminated under load do not end the process", async () => {
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

test("an error in a callback affects no other operation", async () => {
  const result = await run(`
    import { setTimeout as sleep } from "node:timers/promises";
    import { addon } from "${JS}native/addon.js";
    const { Bridge, open } = addon();
    const answered = new Map();
    const thrown = [];
    process.on("uncaughtException", (error) => thrown.push(error.message));
    let calls = 0;
    // The native side does not keep the error.
    globalThis.onReplies = (...batch) => {
      for (let i = 0; i < batch.length; i += 2) answered.set(batch[i], batch[i + 1]);
      calls++;
      throw new Error("on purpose");
    };
    const bridge = new Bridge(onReplies);
    const node = { host: "127.0.0.1", port: ${server.port} };
    const backend = open(bridge, "redis", JSON.stringify({ deployment: { kind: "server", node } }), 0);
    const asked = [];
    // More results than fit into one call.
    for (const giveUpAt = Date.now() + 20_000; thrown.length < 10 && Date.now() < giveUpAt; ) {
      for (let i = 0; i < 200; i++) asked.push(backend.isLocked("k"));
      // The requests use two connections, so their order is not kept.
      while (answered.size < asked.length && Date.now() < giveUpAt) await sleep(1);
    }
    console.log(asked.every((id) => answered.get(id) === "0"), calls === thrown.length, calls >= 10);
  `);
  expect(result).toMatchObject({ code: 0, stderr: "", stdout: "true true true\n" });
});

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
