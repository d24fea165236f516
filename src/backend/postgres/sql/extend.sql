-- $1 lockId, $2 TTL in ms. One UPDATE finds the row by its lockId, locks it and changes it. When
-- it had to wait for that lock, both conditions are asked again of the newest version of the row,
-- with the clock of that moment: an expired lock does not come back to life, and a row that has
-- another owner by then is left alone.
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
        -- The row as of the start of the statement: it was there, so it had expired.
        WHEN EXISTS (SELECT FROM syncguard_locks WHERE lock_id = $1::text) THEN 'expired'
        ELSE 'not found'
    END,
    (SELECT expires_at_ms FROM extended)
