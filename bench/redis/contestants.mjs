// The Redis lock libraries, each used as its documentation describes.
import { setTimeout as sleep } from "node:timers/promises";
import { Redlock as SesamecareRedlock } from "@sesamecare-oss/redlock";
import { Verrou } from "@verrou/core";
import { redisStore } from "@verrou/core/drivers/redis";
import Redis from "ioredis";
import { Mutex } from "redis-semaphore";
import Redlock from "redlock";
import { lock } from "syncguard";
import { createRedisBackend } from "syncguard/redis";
import { createSecond } from "../../__test__/redis/second.js";
import { pairOf } from "../lib/pair.mjs";

const TTL_MS = 30_000;
const PATIENCE_MS = 600_000;
const RETRIES = 1e9;
const RETRY_DELAY_MS = 100;

/** Returns all contestants, on the server at `url`. */
export function contestants(url) {
  return [
    syncguard(url),
    reference(url),
    redlock(url),
    redisSemaphore(url),
    verrou(url),
    sesamecare(url),
  ];
}

function syncguard(url) {
  const backend = createRedisBackend(url);
  const acquisition = { maxRetries: RETRIES, timeoutMs: PATIENCE_MS };
  return {
    name: "syncguard/redis",
    acquireRelease: pairOf(backend, TTL_MS),
    runUnderLock: (key, fn) => lock(backend, fn, { key, ttlMs: TTL_MS, acquisition }),
    teardown: () => backend.close(),
  };
}

/** The documented scripts through ioredis, with the documented retry loop in JavaScript. */
function reference(url) {
  const redis = new Redis(url);
  const backend = createSecond(redis, { keyPrefix: "reference" });
  return {
    name: "reference (ioredis)",
    reference: true,
    acquireRelease: pairOf(backend, TTL_MS),
    async runUnderLock(key, fn) {
      for (let attempt = 0; ; attempt++) {
        const result = await backend.acquire({ key, ttlMs: TTL_MS });
        if (result.ok) {
          try {
            return await fn();
          } finally {
            await result.release();
          }
        }
        const delay = RETRY_DELAY_MS * 2 ** Math.min(attempt, 5);
        await sleep(delay / 2 + (Math.random() * delay) / 2);
      }
    },
    teardown: async () => void redis.disconnect(),
  };
}

function redlock(url) {
  const redis = new Redis(url);
  const library = new Redlock([redis], {
    retryCount: -1,
    retryDelay: RETRY_DELAY_MS,
    retryJitter: RETRY_DELAY_MS,
  });
  return {
    name: "redlock",
    async acquireRelease(key) {
      const held = await library.lock(key, TTL_MS);
      await held.unlock();
    },
    async runUnderLock(key, fn) {
      const held = await library.lock(key, TTL_MS);
      try {
        await fn();
      } finally {
        await held.unlock();
      }
    },
    teardown: async () => void redis.disconnect(),
  };
}

function redisSemaphore(url) {
  const redis = new Redis(url);
  const options = {
    lockTimeout: TTL_MS,
    acquireTimeout: PATIENCE_MS,
    retryInterval: RETRY_DELAY_MS,
    // Turn this off, because the others do not extend locks in these loads.
    refreshInterval: 0,
  };
  const run = async (key, fn) => {
    const mutex = new Mutex(redis, key, options);
    await mutex.acquire();
    try {
      await fn?.();
    } finally {
      await mutex.release();
    }
  };
  return {
    name: "redis-semaphore",
    acquireRelease: (key) => run(key),
    runUnderLock: run,
    teardown: async () => void redis.disconnect(),
  };
}

function verrou(url) {
  const redis = new Redis(url);
  const library = new Verrou({
    default: "redis",
    stores: { redis: { driver: redisStore({ connection: redis }) } },
  });
  const retry = { attempts: RETRIES, delay: RETRY_DELAY_MS, timeout: PATIENCE_MS };
  return {
    name: "@verrou/core",
    async acquireRelease(key) {
      const held = library.createLock(key, TTL_MS);
      if (!(await held.acquireImmediately())) throw new Error("not acquired");
      await held.release();
    },
    runUnderLock: async (key, fn) => {
      const [executed] = await library.createLock(key, TTL_MS).run(fn, { retry });
      if (!executed) throw new Error("not acquired");
    },
    teardown: async () => void redis.disconnect(),
  };
}

function sesamecare(url) {
  const redis = new Redis(url);
  const library = new SesamecareRedlock([redis], {
    retryCount: -1,
    retryDelay: RETRY_DELAY_MS,
    retryJitter: RETRY_DELAY_MS,
  });
  return {
    name: "@sesamecare-oss/redlock",
    async acquireRelease(key) {
      const held = await library.acquire([key], TTL_MS);
      await held.release();
    },
    runUnderLock: (key, fn) => library.using([key], TTL_MS, fn),
    teardown: async () => void redis.disconnect(),
  };
}
