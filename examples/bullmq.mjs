// A BullMQ worker that runs one job per account at a time, and at most three jobs per tenant, however
// many workers there are. A job that cannot get its locks is delayed, not failed: that is no attempt.
//
//   REDIS_URL=redis://… node examples/bullmq.mjs add acme account:7 send-invoice
//   REDIS_URL=redis://… node examples/bullmq.mjs

import { setTimeout as sleep } from "node:timers/promises";
import { DelayedError, Queue, Worker } from "bullmq";
import Redis from "ioredis";
import { tryLock } from "syncguard";
import { createRedisBackend } from "syncguard/redis";

const PER_TENANT = 3;
const RETRY_AFTER_MS = 500;

const url = process.env.REDIS_URL ?? "redis://127.0.0.1:6379";
const name = process.env.QUEUE ?? "mail";
// BullMQ's workers need this option for their connection.
const connection = new Redis(url, { maxRetriesPerRequest: null });

async function work({ name, data }, signal) {
  console.log(`started ${name} of ${data.account}`);
  // A lost lock ends the work. Pass the lock's fence with every write: see fenced-redis.mjs.
  await sleep(data.workMs, undefined, { signal });
  console.log(`finished ${name} of ${data.account}`);
}

/** Runs the job under both locks. Returns whether it did. */
async function workUnderLocks(backend, job) {
  const { tenant, account } = job.data;
  const underTenant = () =>
    tryLock(backend, ({ signal }) => work(job, signal), {
      key: `tenant:${tenant}`,
      concurrency: PER_TENANT,
      throwIfLost: true,
    });
  const done = await tryLock(backend, underTenant, { key: account, throwIfLost: true });
  return done.ok && done.value.ok;
}

async function workUntilShutdown() {
  const backend = createRedisBackend(url);
  const handle = async (job, token) => {
    if (await workUnderLocks(backend, job)) return;
    // Other workers wait as well, so do not try again all at the same time.
    await job.moveToDelayed(Date.now() + RETRY_AFTER_MS * (0.5 + Math.random()), token);
    throw new DelayedError();
  };
  const worker = new Worker(name, handle, { connection, concurrency: 10 });
  worker.on("failed", (job, error) => console.error(`failed ${job?.name}: ${error.message}`));
  worker.on("error", (error) => console.error(error.message));
  await worker.waitUntilReady();
  console.log("waiting for jobs");
  await new Promise((resolve) => {
    for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, resolve);
  });
  await worker.close(); // waits for the jobs that run
  await backend.close();
}

async function add(tenant, account, name, workMs = "1000") {
  const queue = new Queue(process.env.QUEUE ?? "mail", { connection });
  await queue.add(name, { tenant, account, workMs: Number(workMs) });
  await queue.close();
}

const [command, ...job] = process.argv.slice(2);
await (command === "add" ? add(...job) : workUntilShutdown());
connection.disconnect();
