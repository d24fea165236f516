// Fills a cache once. When a popular entry expires, many processes miss it at the same time. One of them
// loads the value, and the others wait for it in place of loading it too (a cache stampede).
//
//   REDIS_URL=redis://… node examples/cache.mjs prices & REDIS_URL=redis://… node examples/cache.mjs prices

import { setTimeout as sleep } from "node:timers/promises";
import Redis from "ioredis";
import { LockError, lock } from "syncguard";
import { createRedisBackend } from "syncguard/redis";

const redis = new Redis(process.env.REDIS_URL ?? "redis://127.0.0.1:6379");
const backend = createRedisBackend(redis);
const ENTRY_MS = 60_000;

/** Returns the entry, or loads it if no other process does. */
async function cached(name, load) {
  const entry = `cache:${name}`;
  const read = async () => JSON.parse(await redis.get(entry));
  const found = await read();
  if (found !== null) return found;

  const fill = async ({ signal }) => {
    // Whoever held the lock before may have filled it.
    const filled = await read();
    if (filled !== null) return filled;
    const value = await load(signal);
    await redis.set(entry, JSON.stringify(value), "PX", ENTRY_MS);
    return value;
  };
  try {
    return await lock(backend, fill, { key: entry, acquisition: { timeoutMs: 5_000 } });
  } catch (error) {
    const isBusy = error instanceof LockError && error.code === "AcquisitionTimeout";
    if (!isBusy) throw error;
    // Loading takes longer than a caller should wait. Load it here too: that is slow, but correct.
    return load();
  }
}

/** Stands in for a slow query. */
async function load(signal) {
  console.log("loading");
  await sleep(Number(process.env.LOAD_MS ?? 500), undefined, { signal });
  return { at: new Date().toISOString() };
}

const [name = "prices"] = process.argv.slice(2);
try {
  const { at } = await cached(name, load);
  console.log(`loaded at ${at}`);
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
} finally {
  await backend.close();
  redis.disconnect();
}
