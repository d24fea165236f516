-- $1 lockId. One DELETE finds the row by its lockId, locks it and removes it. When it had to wait
-- for that lock, both conditions are asked again of the newest version of the row, with the clock
-- of that moment: a row that has another owner by then is left alone.
--
-- A release need not be on disk before it is answered. Should a crash undo it, the lock merely
-- lasts until its TTL, as if its holder had died; and whoever acquires it next waits for the disk,
-- which then has this release too, for it comes earlier in the log.
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
    -- The row as of the start of the statement: it was there, so it had expired.
    WHEN EXISTS (SELECT FROM syncguard_locks WHERE lock_id = $1::text) THEN 'expired'
    ELSE 'not found'
END
