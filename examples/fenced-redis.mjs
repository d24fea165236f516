// A fenced write in Redis: the hash stores the fence of its last writer, and the script that writes
// refuses a lower one. The server runs a script as one step, so no other write can come between the
// check and the write.
//
//   REDIS_URL=redis://… node examples/fenced-redis.mjs daily
//
// To see a write refused, suspend the program while it works (Ctrl-Z) and run it again in another
// terminal. That one gets the lock as soon as the first one's has expired. Then resume the first (fg).

import { setTimeout as sleep } from "node:timers/promises";
import Redis from "ioredis";
import { lock } from "syncguard";
import { createRedisBackend } from "syncguard/redis";

const [name = "daily", workMs = "5000"] = process.argv.slice(2);
const redis = new Redis(process.env.REDIS_URL ?? "redis://127.0.0.1:6379");
redis.on("error", (error) => console.error(`Redis: ${error.message}`));
const backend = createRedisBackend(redis);

// All fences have 15 digits, so they can be compared as strings.
const WRITE = `
  local highest = redis.call("HGET", KEYS[1], "fence")
  if highest and ARGV[1] < highest then return 0 end
  redis.call("HSET", KEYS[1], "fence", ARGV[1], "body", ARGV[2])
  return 1
`;

async function writeReport(body, fence) {
  const written = await redis.eval(WRITE, 1, `report:${name}`, fence, body);
  if (!written) throw new Error(`refused: a later holder has written, ${fence} is too old`);
  console.log(`${fence} wrote "${body}"`);
}

try {
  await lock(
    backend,
    async ({ fence }) => {
      await writeReport("in progress", fence);
      // The work. If the process is suspended here, its lock expires. A check in this process cannot
      // prevent that, since the process may be suspended right after the check.
      await sleep(Number(workMs));
      await writeReport(`done by process ${process.pid}`, fence);
    },
    { key: `report:${name}`, ttlMs: 2_000, autoExtend: true, acquisition: { timeoutMs: 30_000 } },
  );
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
} finally {
  await backend.close();
  redis.disconnect();
}
