// The contestants, with the default settings of their documentation, except that none gives up.
//
// `open(url)` returns `run(wish, fn)`, which waits for what is wished, and `close()`. A wish is a
// semaphore, `{ key, limit }`, or several keys, `{ keys }`. It is called in separate processes, which
// load only what they need.
import Redis from "ioredis";

const TTL_MS = 30_000;
const PATIENCE_MS = 600_000;

/** `wishes`: what the contestant can do. */
export const CONTESTANTS = {
  syncguard: {
    wishes: ["semaphore", "several keys"],
    async open(url) {
      const { lock } = await import("syncguard");
      const { createRedisBackend } = await import("syncguard/redis");
      const backend = createRedisBackend(url);
      const acquisition = { timeoutMs: PATIENCE_MS };
      return {
        run: ({ key, keys, limit }, fn) =>
          lock(backend, fn, {
            ...(keys ? { keys } : { key, concurrency: limit }),
            ttlMs: TTL_MS,
            acquisition,
          }),
        close: () => backend.close(),
      };
    },
  },
  "redis-semaphore": {
    wishes: ["semaphore", "several keys"],
    async open(url) {
      const { Mutex, Semaphore } = await import("redis-semaphore");
      const redis = new Redis(url);
      const options = { lockTimeout: TTL_MS, acquireTimeout: PATIENCE_MS };
      return {
        run: ({ key, keys, limit }, fn) =>
          keys
            ? // It locks one key at a time. Everybody takes them in the same order.
              nested(
                [...keys].sort().map((one) => new Mutex(redis, one, options)),
                fn,
              )
            : nested([new Semaphore(redis, key, limit, options)], fn),
        close: async () => redis.disconnect(),
      };
    },
  },
  redlock: {
    wishes: ["several keys"],
    async open(url) {
      const { default: Redlock } = await import("redlock");
      const redis = new Redis(url);
      const library = new Redlock([redis], { retryCount: -1 });
      return {
        async run({ keys }, fn) {
          const held = await library.lock(keys, TTL_MS);
          try {
            await fn();
          } finally {
            await held.unlock();
          }
        },
        close: async () => redis.disconnect(),
      };
    },
  },
};

/** Acquires the locks one after another, and releases them all. */
async function nested([lock, ...others], fn) {
  if (lock === undefined) return fn();
  await lock.acquire();
  try {
    await nested(others, fn);
  } finally {
    await lock.release();
  }
}
