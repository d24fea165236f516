// A worker that takes jobs from Redis: any number of them run at once, but only one job of an entity
// at a time, in order. A job leaves its queue when it is done, so that of a worker that was killed is
// taken over by another as soon as its lock has expired: a job may be begun twice. A worker that is
// told to end (Ctrl-C, SIGTERM) finishes its job first.
//
//   REDIS_URL=redis://… node examples/worker.mjs add customer:7 send-invoice
//   REDIS_URL=redis://… node examples/worker.mjs

import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import Redis from "ioredis";
import { tryLock } from "syncguard";
import { createRedisBackend } from "syncguard/redis";

const redis = new Redis(process.env.REDIS_URL ?? "redis://127.0.0.1:6379");
redis.on("error", (error) => console.error(`Redis: ${error.message}`));
const backend = createRedisBackend(redis);
const queue = process.env.QUEUE ?? "jobs"; // a set of the entities that have jobs, and a list of each
let isEnding = false;
for (const name of ["SIGINT", "SIGTERM"]) process.once(name, () => (isEnding = true));

async function add(entity, name, workMs = "1000") {
  const job = JSON.stringify({ id: randomUUID(), name, workMs: Number(workMs) });
  await redis.multi().rpush(`${queue}:${entity}`, job).sadd(queue, entity).exec();
}

async function work(entity, { name, workMs }, signal) {
  console.log(`begins ${name} of ${entity}`);
  // A lost lock ends the work. What it writes should take the lock's fence: see fenced-redis.mjs.
  await sleep(workMs, undefined, { signal });
  console.log(`finished ${name} of ${entity}`);
}

// The job by its content: never one that was not done. One step, so that no new job is overlooked.
const DONE = `
  redis.call("LREM", KEYS[1], 1, ARGV[1])
  if redis.call("EXISTS", KEYS[1]) == 0 then redis.call("SREM", KEYS[2], ARGV[2]) end
`;

/** Does the first job of the entity, unless another worker is at it; whether it did one. */
async function workOff(entity) {
  const list = `${queue}:${entity}`;
  const { value = false } = await tryLock(
    backend,
    async ({ signal }) => {
      const job = await redis.lindex(list, 0);
      if (job === null) return false;
      await work(entity, JSON.parse(job), signal);
      await redis.eval(DONE, 2, list, queue, job, entity);
      return true;
    },
    { key: list, ttlMs: 3_000, autoExtend: true },
  );
  return value;
}

async function workUntilShutdown() {
  console.log("waits for jobs");
  while (!isEnding) {
    let isIdle = true;
    for (const entity of await redis.smembers(queue)) {
      if (isEnding) break;
      // A job that failed stays, for the next round.
      const worked = await workOff(entity).catch((error) => console.error(error.message));
      if (worked) isIdle = false;
    }
    if (isIdle) await sleep(200);
  }
}

const [command, ...job] = process.argv.slice(2);
try {
  await (command === "add" ? add(...job) : workUntilShutdown());
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
} finally {
  await backend.close();
  redis.disconnect();
}
