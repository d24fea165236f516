// The liveness rule, and the clock of a Redis server.

import { invalidArgument } from "./errors.js";

/**
 * @param {number} expiresAtMs
 * @param {number} nowMs
 * @param {number} toleranceMs
 */
export function isLive(expiresAtMs, nowMs, toleranceMs) {
  return expiresAtMs > nowMs - toleranceMs;
}

/**
 * Returns the milliseconds of a reply to Redis' TIME: `[seconds, microseconds]`.
 * @param {readonly [string | number, string | number]} timeTuple
 */
export function calculateRedisServerTimeMs(timeTuple) {
  const ms = Array.isArray(timeTuple)
    ? Number(timeTuple[0]) * 1000 + Math.floor(Number(timeTuple[1]) / 1000)
    : Number.NaN;
  if (Number.isNaN(ms)) {
    throw invalidArgument(
      "calculateRedisServerTimeMs() got something other than a reply to Redis' TIME command: pass [seconds, microseconds]",
    );
  }
  return ms;
}
