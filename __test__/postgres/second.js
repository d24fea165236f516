// A second implementation of the documented format, with postgres.js, one statement at a time. It shares
// only the tables with the package.

import { randomBytes } from "node:crypto";

const TOLERANCE_MS = 1000;

/**
 * @param {import("postgres").Sql} sql
 * @param {object} [options]
 * @param {() => unknown} [options.pause] awaited between the statements of an acquire
 */
export function createSecond(
  sql,
  { tableName = "syncguard_locks", fenceTableName = "syncguard_fence_counters", pause } = {},
) {
  const locks = sql(tableName);
  const counters = sql(fenceTableName);
  const clock = async (tx) => {
    const [{ ms }] = await tx`SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS ms`;
    return Number(ms);
  };
  const isLive = (row, nowMs) => row && Number(row.expires_at_ms) > nowMs - TOLERANCE_MS;
  const owned = async (tx, lockId) => {
    const [row] = await tx`SELECT * FROM ${locks} WHERE lock_id = ${lockId} FOR UPDATE`;
    const nowMs = await clock(tx);
    return { nowMs, row: row?.lock_id === lockId && isLive(row, nowMs) ? row : undefined };
  };

  return {
    acquire: ({ key, ttlMs }) =>
      sql.begin(async (tx) => {
        await tx`SELECT pg_advisory_xact_lock(hashtext(${key}))`;
        await pause?.();
        const [row] = await tx`SELECT * FROM ${locks} WHERE key = ${key} FOR UPDATE`;
        await pause?.();
        const nowMs = await clock(tx);
        if (isLive(row, nowMs)) return { ok: false, reason: "locked" };
        const [counter] = await tx`
          INSERT INTO ${counters} (fence_key, fence, key_debug) VALUES (${"fence:" + key}, 1, ${key})
          ON CONFLICT (fence_key) DO UPDATE SET fence = ${counters}.fence + 1
          RETURNING fence`;
        await pause?.();
        const fence = String(counter.fence).padStart(15, "0");
        const lockId = randomBytes(16).toString("base64url");
        const expiresAtMs = nowMs + ttlMs;
        await tx`
          INSERT INTO ${locks} (key, lock_id, expires_at_ms, acquired_at_ms, fence, user_key)
          VALUES (${key}, ${lockId}, ${expiresAtMs}, ${nowMs}, ${fence}, ${key})
          ON CONFLICT (key) DO UPDATE SET lock_id = excluded.lock_id,
            expires_at_ms = excluded.expires_at_ms, acquired_at_ms = excluded.acquired_at_ms,
            fence = excluded.fence, user_key = excluded.user_key`;
        return { ok: true, lockId, expiresAtMs, fence };
      }),

    release: ({ lockId }) =>
      sql.begin(async (tx) => {
        const { row } = await owned(tx, lockId);
        if (row) await tx`DELETE FROM ${locks} WHERE key = ${row.key}`;
        return { ok: row !== undefined };
      }),

    extend: ({ lockId, ttlMs }) =>
      sql.begin(async (tx) => {
        const { row, nowMs } = await owned(tx, lockId);
        if (!row) return { ok: false };
        const expiresAtMs = nowMs + ttlMs;
        await tx`UPDATE ${locks} SET expires_at_ms = ${expiresAtMs} WHERE key = ${row.key}`;
        return { ok: true, expiresAtMs };
      }),

    async isLocked({ key }) {
      const [row] = await sql`SELECT expires_at_ms FROM ${locks} WHERE key = ${key}`;
      return Boolean(isLive(row, await clock(sql)));
    },

    async lookup({ key }) {
      const [row] = await sql`SELECT * FROM ${locks} WHERE key = ${key}`;
      if (!isLive(row, await clock(sql))) return null;
      return { expiresAtMs: Number(row.expires_at_ms), fence: row.fence };
    },
  };
}
