// All contestants, with the default settings of their documentation.
//
// `open(target)` returns `run(key, fn)`, which waits for the lock and rejects when it gives up, and
// `close()`. It is called in separate processes, which load only what they need.
import { setTimeout as sleep } from "node:timers/promises";

const TTL_MS = 30_000;

/** `crowd` means that the contestant takes part in the test with many processes on one key. */
export const CONTESTANTS = {
  "syncguard/redis": {
    store: "redis",
    crowd: true,
    open: async (url) => ours((await import("syncguard/redis")).createRedisBackend(url)),
  },
  "documented loop (ioredis)": {
    store: "redis",
    crowd: true,
    async open(url) {
      const { createSecond } = await import("../../__test__/redis/second.js");
      return overIoredis(url, (redis) => documentedLoop(createSecond(redis)));
    },
  },
  redlock: {
    store: "redis",
    crowd: true,
    async open(url) {
      const { default: Redlock } = await import("redlock");
      return overIoredis(url, (redis) => {
        const library = new Redlock([redis]);
        return async (key, fn) => {
          const held = await library.lock(key, TTL_MS);
          await fn();
          await held.unlock();
        };
      });
    },
  },
  "redis-semaphore": {
    store: "redis",
    crowd: true,
    async open(url) {
      const { Mutex } = await import("redis-semaphore");
      return overIoredis(url, (redis) => async (key, fn) => {
        const mutex = new Mutex(redis, key);
        await mutex.acquire();
        await fn();
        await mutex.release();
      });
    },
  },
  "@verrou/core (Redis)": {
    store: "redis",
    async open(url) {
      const { Verrou } = await import("@verrou/core");
      const { redisStore } = await import("@verrou/core/drivers/redis");
      return overIoredis(url, (connection) => {
        const stores = { redis: { driver: redisStore({ connection }) } };
        const library = new Verrou({ default: "redis", stores });
        return (key, fn) => library.createLock(key).run(fn);
      });
    },
  },
  "syncguard/postgres": {
    store: "postgres",
    crowd: true,
    async open(url) {
      const { createPostgresBackend, setupSchema } = await import("syncguard/postgres");
      await setupSchema(url);
      return ours(createPostgresBackend(url));
    },
  },
  "@verrou/core (PostgreSQL)": {
    store: "postgres",
    async open(url) {
      const { openVerrou } = await import("../rivals/verrou-postgres.mjs");
      const { runUnderLock, close } = openVerrou(url, 10);
      return { run: runUnderLock, close };
    },
  },
  "syncguard/sqlite": {
    store: "sqlite",
    crowd: true,
    open: async (path) => ours((await import("syncguard/sqlite")).createSqliteBackend(path)),
  },
  "proper-lockfile": {
    store: "files",
    async open(folder) {
      const { default: lockfile } = await import("proper-lockfile");
      return {
        async run(key, fn) {
          // By default it does not wait at all. Its documentation suggests these settings.
          const options = { realpath: false, retries: 10 };
          const release = await lockfile.lock(`${folder}/${key}`, options);
          await fn();
          await release();
        },
        close: async () => {},
      };
    },
  },
  "syncguard/firestore": {
    store: "firestore",
    async open(emulatorHost) {
      const { createFirestoreBackend } = await import("syncguard/firestore");
      return ours(createFirestoreBackend({ projectId: "bench", emulatorHost }));
    },
  },
};

async function ours(backend) {
  const { lock } = await import("syncguard");
  return { run: (key, fn) => lock(backend, fn, { key }), close: () => backend.close() };
}

async function overIoredis(url, make) {
  const { default: Redis } = await import("ioredis");
  const redis = new Redis(url);
  return { run: make(redis), close: async () => redis.disconnect() };
}

/** The retry loop of the specification, with its defaults. */
function documentedLoop(backend) {
  const [maxRetries, retryDelayMs, timeoutMs] = [10, 100, 5_000];
  return async (key, fn) => {
    const giveUpAt = performance.now() + timeoutMs;
    for (let attempt = 0; attempt <= maxRetries; attempt++) {
      const result = await backend.acquire({ key, ttlMs: TTL_MS });
      if (result.ok) {
        await fn();
        await result.release();
        return;
      }
      const left = giveUpAt - performance.now();
      if (left <= 0) break;
      const delay = retryDelayMs * 2 ** attempt;
      await sleep(Math.min(left, delay / 2 + (Math.random() * delay) / 2));
    }
    throw new Error("gave up");
  };
}
