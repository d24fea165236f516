-- Releases the share with lockId $1. Runs after lock_record.sql in the same transaction.
--
-- The record then expires with the last of the other holders. Without any, it is removed. If a writer has
-- left a mark in it, it stays as an expired record until the writer comes, so that no reader is faster.
--
-- As in release.sql, the answer does not wait until the release is on disk.
WITH relaxed AS MATERIALIZED (
    SELECT
        set_config('synchronous_commit', 'off', true),
        (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms
),
own AS MATERIALIZED (
    SELECT holder.key, holder.record_id, holder.expires_at_ms > now_ms - 1000 AS is_live
    FROM relaxed, syncguard_locks_holders AS holder JOIN syncguard_locks AS record
        ON record.key = holder.key AND record.lock_id = holder.record_id
    WHERE holder.lock_id = $1::text AND holder.slot IS NOT NULL
),
released AS (
    DELETE FROM syncguard_locks_holders
    WHERE lock_id = $1::text AND EXISTS (SELECT FROM own WHERE is_live)
    RETURNING notify_waiters
),
others AS MATERIALIZED (
    SELECT
        max(holder.expires_at_ms) FILTER (WHERE slot IS NOT NULL AND expires_at_ms > now_ms - 1000) AS last_ms,
        coalesce(bool_or(slot IS NULL AND expires_at_ms > now_ms), false) AS is_marked
    FROM relaxed, own JOIN syncguard_locks_holders AS holder USING (key, record_id)
    WHERE lock_id <> $1::text
),
shortened AS (
    UPDATE syncguard_locks AS record SET expires_at_ms = coalesce(last_ms, now_ms - 1000)
    FROM relaxed, own, others
    WHERE record.key = own.key AND is_live AND (last_ms IS NOT NULL OR is_marked)
        AND record.expires_at_ms <> coalesce(last_ms, now_ms - 1000)
),
removed AS (
    DELETE FROM syncguard_locks AS record USING own, others
    WHERE record.key = own.key AND is_live AND last_ms IS NULL AND NOT is_marked
)
SELECT
    CASE
        WHEN EXISTS (SELECT FROM released) THEN 'done'
        WHEN EXISTS (SELECT FROM own) THEN 'expired'
        ELSE 'not found'
    END
