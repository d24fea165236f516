// Tests workers of the real BullMQ that share a queue.

import { randomUUID } from "node:crypto";
import { Queue } from "bullmq";
import { afterEach, beforeEach, expect, test } from "vitest";
import { until } from "../fixtures/wait.js";
import { ioredis } from "../redis/open.js";
import { run, start } from "./program.js";

// Uses REDIS_URL.
let env, queue, connection;
beforeEach(() => {
  env = { QUEUE: `mail-${randomUUID()}` };
  connection = ioredis(process.env.REDIS_URL, { maxRetriesPerRequest: null });
  queue = new Queue(env.QUEUE, { connection });
});
afterEach(async () => {
  await queue.obliterate({ force: true });
  await queue.close();
  connection.disconnect();
});

const add = (tenant, account, name, workMs) => queue.add(name, { tenant, account, workMs });
const counts = () => queue.getJobCounts("waiting", "active", "delayed", "completed", "failed");
const untilCompleted = (count) =>
  until(async () => (await counts()).completed === count, `${count} completed jobs`);

/** Starts two workers. `moments()` are the lines of both, with how many jobs run after each. */
async function startWorkers() {
  const workers = [start("bullmq", [], env), start("bullmq", [], env)];
  for (const worker of workers) await worker.line(/^waiting for jobs/);
  return workers;
}
const linesOf = (workers) => workers.flatMap(({ lines }) => lines.slice(1));

test("one job per account runs at a time, and a job that waits is delayed, not failed", async () => {
  const account = `account:${randomUUID()}`;
  const workers = await startWorkers();
  await add("acme", account, "first", 1_500);
  await until(() => linesOf(workers).includes(`started first of ${account}`), "the first job");
  const second = await add("acme", account, "second", 0);
  await add("acme", `${account}-other`, "third", 0);
  await until(async () => (await counts()).delayed === 1, "the second job to be delayed");
  await until(
    () => linesOf(workers).some((line) => line.startsWith("finished third")),
    "the third",
  );
  expect(linesOf(workers).filter((line) => line.includes("second"))).toEqual([]);
  await untilCompleted(3);
  expect(await counts()).toMatchObject({ completed: 3, failed: 0, delayed: 0 });
  const { attemptsMade, failedReason } = await queue.getJob(second.id);
  expect({ attemptsMade, failedReason }).toEqual({ attemptsMade: 1, failedReason: undefined });
});

test("a worker finishes its job before it shuts down", async () => {
  const account = `account:${randomUUID()}`;
  const added = await run("bullmq", ["add", "acme", account, "invoice", "800"], env);
  expect(added).toEqual({ code: 0, lines: [] });
  const worker = start("bullmq", [], env);
  await worker.line(/^started invoice/);
  worker.kill("SIGTERM");
  const lines = ["waiting for jobs", `started invoice of ${account}`];
  expect(await worker.exit()).toEqual({
    code: 0,
    lines: [...lines, `finished invoice of ${account}`],
  });
  expect(await counts()).toMatchObject({ completed: 1, failed: 0 });
});
