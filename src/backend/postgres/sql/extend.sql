-- Extends the lock with lockId $1 to a TTL of $2 ms. One UPDATE finds the row, locks it and changes it. If
-- it has to wait for the row's lock, both conditions are checked again on the newest version of the row, at
-- the time of that moment. So an expired lock does not come back to life, and a row that has another owner
-- by then is left alone.
WITH extended AS (
    UPDATE syncguard_locks
    SET expires_at_ms = (extract(epoch FROM clock_timestamp()) * 1000)::bigint + $2::bigint
    WHERE lock_id = $1::text
        AND expires_at_ms > (extract(epoch FROM clock_timestamp()) * 1000)::bigint - 1000
    RETURNING expires_at_ms
)
SELECT
    CASE
        WHEN EXISTS (SELECT FROM extended) THEN 'done'
        -- This is the row at the start of the statement. It existed, so it had expired.
        WHEN EXISTS (SELECT FROM syncguard_locks WHERE lock_id = $1::text) THEN 'expired'
        ELSE 'not found'
    END,
    (SELECT expires_at_ms FROM extended)
