// Runs the handler in processes that are frozen between invocations, and in the middle of one.

import { fork } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { startRedis } from "../../scripts/servers.mjs";
import { until } from "../fixtures/wait.js";
import { ioredis, open } from "../redis/open.js";

const RUNTIME = fileURLToPath(new URL("./lambda-runtime.js", import.meta.url));
let server, backend, redis;
beforeAll(async () => {
  server = await startRedis();
  backend = open({ target: server.url });
  redis = ioredis(server.url);
});
afterAll(async () => {
  redis.disconnect();
  await backend.close();
  await server.stop();
});

const running = [];
afterEach(() => {
  for (const child of running.splice(0)) child.kill("SIGKILL");
});
let shop;
beforeEach(() => {
  shop = randomUUID();
});

async function startEnvironment() {
  const env = { ...process.env, NODE_OPTIONS: "", SYNCGUARD_URL: server.url };
  const child = fork(RUNTIME, { env, execArgv: [], stdio: ["ignore", "ignore", "inherit", "ipc"] });
  running.push(child);
  await once(child, "message");
  return {
    invoke: (ms, timeoutMs) => {
      child.send({ event: { shop, ms }, timeoutMs });
      return once(child, "message").then(([message]) => message);
    },
    freeze: () => child.kill("SIGSTOP"),
    thaw: () => child.kill("SIGCONT"),
  };
}
const key = () => `import:${shop}`;
const connections = async () => (await redis.client("LIST")).trim().split("\n").length;

test("an environment uses its connection again, after it was frozen or cut off", async () => {
  const lambda = await startEnvironment();
  expect((await lambda.invoke(0, 10_000)).answer).toMatchObject({ statusCode: 200 });
  lambda.freeze();
  expect(await backend.isLocked({ key: key() })).toBe(false);
  const before = await connections();
  await sleep(500);
  lambda.thaw();
  expect((await lambda.invoke(0, 10_000)).answer).toMatchObject({ statusCode: 200 });
  expect(await connections()).toBe(before);

  lambda.freeze();
  await redis.client("KILL", "TYPE", "normal", "SKIPME", "yes");
  lambda.thaw();
  const { answer } = await lambda.invoke(0, 10_000);
  expect(JSON.parse(answer.body)).toEqual({ shop, fence: "000000000000003" });
});

test("the lease is what the invocation has left", async () => {
  const lambda = await startEnvironment();
  const done = lambda.invoke(1_000, 8_000);
  await until(() => backend.isLocked({ key: key() }), "the import to begin");
  const { expiresAtMs } = await backend.lookup({ key: key() });
  expect(expiresAtMs - Date.now()).toBeGreaterThan(5_000);
  expect(expiresAtMs - Date.now()).toBeLessThanOrEqual(7_500);
  const other = await startEnvironment();
  expect((await other.invoke(0, 8_000)).answer).toMatchObject({ statusCode: 409 });
  expect((await done).answer).toMatchObject({ statusCode: 200 });
});

test("an invocation that was frozen in the middle loses its lock, and fails", async () => {
  const [frozen, other] = [await startEnvironment(), await startEnvironment()];
  const first = frozen.invoke(3_000, 2_000);
  await until(() => backend.isLocked({ key: key() }), "the import to begin");
  frozen.freeze();
  await until(async () => !(await backend.isLocked({ key: key() })), "the lease to end");
  expect((await other.invoke(0, 8_000)).answer).toMatchObject({ statusCode: 200 });
  frozen.thaw();
  expect(await first).toMatchObject({ error: { name: expect.stringMatching(/Error$/) } });
});
