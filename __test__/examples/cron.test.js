// Tests the example of a job that two hosts start.

import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { run } from "./program.js";

const env = { SYNCGUARD_URL: process.env.REDIS_URL };
const fence = (number) => String(number).padStart(15, "0");

const done = (job, number) => ({
  code: 0,
  lines: [`${job} is running, fence ${fence(number)}`, `${job} is done`],
});
const skipped = (job) => ({ code: 0, lines: [`${job} is run by another host`] });

test("only one of two hosts that start at once runs the job", async () => {
  const job = randomUUID();
  const both = await Promise.all([run("cron", [job], env), run("cron", [job], env)]);
  both.sort((one, other) => other.lines.length - one.lines.length);
  expect(both).toEqual([done(job, 1), skipped(job)]);
});

test("a host that starts after the other has finished skips the job until minHoldMs is over", async () => {
  const [job, short] = [randomUUID(), randomUUID()];
  expect(await run("cron", [job], env)).toEqual(done(job, 1));
  expect(await run("cron", [job], env)).toEqual(skipped(job));
  expect(await run("cron", [short, 1], env)).toEqual(done(short, 1));
  expect(await run("cron", [short, 1], env)).toEqual(done(short, 2));
});

test("a server that cannot be reached is an error", async () => {
  const { code, lines } = await run("cron", ["job"], { SYNCGUARD_URL: "redis://127.0.0.1:1" });
  expect(code).toBe(1);
  expect(lines).toEqual([expect.stringContaining("127.0.0.1:1")]);
});
