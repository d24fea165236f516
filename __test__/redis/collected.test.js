// Locks and connections whose JavaScript objects are garbage-collected.

import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startRedis } from "../../scripts/servers.mjs";
import { hold, lock } from "../fixtures/api.js";
import { collectGarbage } from "../fixtures/gc.js";
import { JS, run } from "../fixtures/node.js";
import { until, untilFree } from "../fixtures/wait.js";
import { open, prefix } from "./open.js";

// A separate server, because the test counts its connections.
let server;
beforeAll(async () => void (server = await startRedis()));
afterAll(() => server.stop());

const warned = (stderr) => stderr.split("SYNCGUARD_LOCK_COLLECTED").length - 1;

/** Runs `body` in a separate process, and collects garbage until it ends. */
const program = (body, env = {}) =>
  run(
    `
    import { hold } from "${JS}index.js";
    import { createRedisBackend } from "${JS}redis.js";
    const open = () => createRedisBackend("${server.url}", { keyPrefix: "${prefix()}" });
    const config = (key) => ({ key, ttlMs: 60_000, autoExtend: true });
    const collect = async () => {
      for (let round = 0; round < 20; round++) {
        gc();
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
    };
    ${body}
  `,
    { flags: ["--expose-gc"], env: { NODE_ENV: "", ...env } },
  );

const FORGET = `
  const forget = async (key) => void (await hold(open(), config(key)));
  for (const key of ["a", "b", "c"]) await forget(key);
  await collect();
`;

test("a handle that is collected while its lock is held gives one warning", async () => {
  const { code, stderr } = await program(FORGET);
  expect(code).toBe(0);
  expect(warned(stderr)).toBe(1);
  expect(stderr).toContain("SyncGuardWarning");
  expect(stderr).not.toMatch(/"a"|"b"|"c"/);
});

test("there is no warning in production", async () => {
  const { code, stderr } = await program(FORGET, { NODE_ENV: "production" });
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
});

test("there is no warning if the lock was released, has expired, or can still be released", async () => {
  const { code, stderr } = await program(`
    const release = async (key) => void (await (await hold(open(), config(key))).release());
    await release("a");
    const expire = async () => {
      const { isHeld } = await hold(open(), { key: "b", ttlMs: 50 });
      while (isHeld()) await new Promise((resolve) => setTimeout(resolve, 5));
    };
    await expire();
    const { release: later } = await hold(open(), config("c"));
    await collect();
    await later();
  `);
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
});

test("a worker's locks end with it, including those whose handles it dropped", async () => {
  const keyPrefix = prefix();
  const backend = open({ target: server.url, keyPrefix });
  const source = `
    const { parentPort } = require("node:worker_threads");
    // The flag of this process applies to its workers, too.
    const collect = require("node:vm").runInNewContext("gc");
    (async () => {
      const { hold } = await import("${JS}index.js");
      const { createRedisBackend } = await import("${JS}redis.js");
      const open = () => createRedisBackend("${server.url}", { keyPrefix: "${keyPrefix}" });
      globalThis.kept = await hold(open(), { key: "kept" });
      const forget = async () => void (await hold(open(), { key: "forgotten" }));
      await forget();
      for (let round = 0; round < 20; round++) {
        collect();
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
      parentPort.postMessage("ready");
      setInterval(() => {}, 1000);
    })();
  `;
  const worker = new Worker(source, { eval: true, execArgv: [], env: { NODE_ENV: "production" } });
  await once(worker, "message");
  expect(await backend.isLocked({ key: "kept" })).toBe(true);
  expect(await backend.isLocked({ key: "forgotten" })).toBe(true);
  await worker.terminate();
  await untilFree(backend, "kept");
  await untilFree(backend, "forgotten");
  await backend.close();
});

test("connections end with the last lock, not earlier", async () => {
  const connections = async () => {
    const list = await server.cli("client", "list");
    return list.split("\n").filter((line) => line.includes("id=") && !line.includes("cmd=client"));
  };
  const keyPrefix = prefix();
  const use = async (index) => {
    const backend = open({ target: server.url, keyPrefix });
    await lock(backend, () => {}, { key: `used:${index}` });
    await hold(backend, { key: `expires:${index}`, ttlMs: 500 });
  };
  const before = (await connections()).length;
  await Promise.all(Array.from({ length: 5 }, (_, index) => use(index)));
  expect((await connections()).length).toBeGreaterThan(before);
  await until(async () => {
    await collectGarbage();
    return (await connections()).length <= before;
  }, "the connections of backends that nobody uses to close");
});
