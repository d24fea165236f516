-- Releases the locks with lockIds $1. $2: how long the server may take, in ms. One DELETE finds a row, locks
-- it and removes it. If it has to wait for the row's lock, both conditions are checked again on the newest
-- version of the row, at the time of that moment. So a row that has another owner by then is left alone.
--
-- One release must not delay the others, so the whole statement fails soon if a row is locked.
--
-- The answer does not wait until the release is on disk. If a crash undoes the release, the lock lasts
-- until its TTL, as if its holder had died. The next acquire waits for the disk, which then has this release
-- too, because it comes earlier in the log.
WITH relaxed AS MATERIALIZED (
    SELECT
        set_config('synchronous_commit', 'off', true),
        set_config('lock_timeout', greatest(1, least(100, $2::bigint / 4))::text, true)
),
released AS (
    DELETE FROM syncguard_locks USING relaxed
    WHERE lock_id = ANY ($1::text[])
        AND expires_at_ms > (extract(epoch FROM clock_timestamp()) * 1000)::bigint - 1000
    RETURNING lock_id, notify_waiters
)
SELECT
    CASE
        WHEN asked.lock_id IN (SELECT lock_id FROM released) THEN 'done'
        -- This is the row at the start of the statement. It existed, so it had expired.
        WHEN EXISTS (SELECT FROM syncguard_locks WHERE lock_id = asked.lock_id) THEN 'expired'
        ELSE 'not found'
    END,
    lock_id
FROM unnest($1::text[]) AS asked (lock_id)
