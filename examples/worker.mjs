// A worker that takes jobs from Redis; run as many as you like. The jobs of one entity run one at a
// time, in order. A job leaves its queue when it is done, so if a worker is killed, another takes over
// and starts the job again once the lock has expired. On Ctrl-C or SIGTERM a worker finishes its job.
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
const queue = process.env.QUEUE ?? "jobs"; // the set of entities with jobs; each has a list
let isEnding = false;
for (const name of ["SIGINT", "SIGTERM"]) process.once(name, () => (isEnding = true));

async function add(entity, name, workMs = "1000") {
  const job = JSON.stringify({ id: randomUUID(), name, workMs: Number(workMs) });
  await redis.multi().rpush(`${queue}:${entity}`, job).sadd(queue, entity).exec();
}

async function work(entity, { name, workMs }, signal) {
  console.log(`started ${name} of ${entity}`);
  // A lost lock ends the work. Pass the lock's fence with every write: see fenced-redis.mjs.
  await sleep(workMs, undefined, { signal });
  console.log(`finished ${name} of ${entity}`);
}

// Removes the job by its content, so never another one. The script is atomic, so no new job is missed.
const DONE = `
  redis.call("LREM", KEYS[1], 1, ARGV[1])
  if redis.call("EXISTS", KEYS[1]) == 0 then redis.call("SREM", KEYS[2], ARGV[2]) end
`;

/** Does the entity's first job unless another worker is busy with it. Returns whether it did one. */
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
  console.log("waiting for jobs");
  while (!isEnding) {
    let isIdle = true;
    for (const entity of await redis.smembers(queue)) {
      if (isEnding) break;
      // A failed job stays in its queue for the next round.
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
