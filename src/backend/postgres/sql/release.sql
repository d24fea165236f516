-- Releases the lock with lockId $1. One DELETE finds the row, locks it and removes it. If it has to wait for
-- the row's lock, both conditions are checked again on the newest version of the row, at the time of that
-- moment. So a row that has another owner by then is left alone.
--
-- The answer does not wait until the release is on disk. If a crash undoes the release, the lock lasts
-- until its TTL, as if its holder had died. The next acquire waits for the disk, which then has this release
-- too, because it comes earlier in the log.
WITH relaxed AS MATERIALIZED (
    SELECT set_config('synchronous_commit', 'off', true)
),
released AS (
    DELETE FROM syncguard_locks USING relaxed
    WHERE lock_id = $1::text
        AND expires_at_ms > (extract(epoch FROM clock_timestamp()) * 1000)::bigint - 1000
    RETURNING notify_waiters
)
SELECT CASE
    WHEN EXISTS (SELECT FROM released) THEN 'done'
    -- This is the row at the start of the statement. It existed, so it had expired.
    WHEN EXISTS (SELECT FROM syncguard_locks WHERE lock_id = $1::text) THEN 'expired'
    ELSE 'not found'
END
