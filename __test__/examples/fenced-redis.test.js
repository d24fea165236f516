// Tests the fenced write in Redis.

import { randomUUID } from "node:crypto";
import { afterAll } from "vitest";
import { ioredis } from "../redis/open.js";
import { fencedWrites } from "./fenced.js";

const redis = ioredis(process.env.REDIS_URL);
afterAll(() => redis.quit());

fencedWrites("fenced-redis", () => {
  const name = randomUUID();
  return { args: [name], stored: () => redis.hgetall(`report:${name}`) };
});
