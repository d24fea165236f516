// Tests workers that share a queue in Redis.

import { randomUUID } from "node:crypto";
import { afterAll, beforeEach, expect, test } from "vitest";
import { until } from "../fixtures/wait.js";
import { ioredis } from "../redis/open.js";
import { run, start } from "./program.js";

const redis = ioredis(process.env.REDIS_URL);
afterAll(() => redis.quit());

let env;
beforeEach(() => {
  env = { QUEUE: `jobs-${randomUUID()}` };
});

const WAITS = "waiting for jobs";
const worker = () => start("worker", [], env);
const add = async (...job) =>
  expect(await run("worker", ["add", ...job], env)).toEqual({ code: 0, lines: [] });
const untilDone = () => until(async () => !(await redis.exists(env.QUEUE)), "all jobs to be done");

test("workers do each job once", async () => {
  const workers = [worker(), worker()];
  for (const { line } of workers) await line(/^waiting/);
  for (const name of ["one", "two", "three"]) await add("a", name, 300);
  await untilDone();
  expect(await redis.keys(`${env.QUEUE}*`)).toEqual([]);
  const begun = workers.flatMap(({ lines }) => lines.filter((line) => line.startsWith("started")));
  expect(begun.sort()).toEqual(["started one of a", "started three of a", "started two of a"]);
});

test("a job delays the other jobs of its entity only", async () => {
  await add("a", "long", 600_000);
  const first = worker();
  await first.line(/^started long/);
  await add("a", "next", 0);
  const second = worker();
  await add("b", "one", 0);
  await add("b", "two", 0);
  await second.line(/^finished two/);
  expect(first.lines).toEqual([WAITS, "started long of a"]);
  const ofB = ["one", "two"].flatMap((job) => [`started ${job} of b`, `finished ${job} of b`]);
  expect(second.lines).toEqual([WAITS, ...ofB]);
});

test("the job of a worker that was killed is taken over", async () => {
  await add("a", "job", 3_000);
  const first = worker();
  await first.line(/^started job/);
  const second = worker();
  first.kill("SIGKILL");
  await second.line(/^finished job/);
  expect(first.lines).toEqual([WAITS, "started job of a"]);
  await untilDone();
});

test("a worker finishes its job before it shuts down", async () => {
  await add("a", "first", 1_000);
  await add("a", "second", 1_000);
  const only = worker();
  await only.line(/^started first/);
  only.kill("SIGTERM");
  const lines = [WAITS, "started first of a", "finished first of a"];
  expect(await only.exit()).toEqual({ code: 0, lines });
  expect(await redis.llen(`${env.QUEUE}:a`)).toBe(1);
});
