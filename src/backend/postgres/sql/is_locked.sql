-- $1 key. Reads one row: whether it is live, and whether it is old enough to be cleaned up.
-- clock_timestamp() is the time at which the row is judged, also when a pooler or an outer
-- transaction began earlier.
SELECT
    expires_at_ms > (extract(epoch FROM clock_timestamp()) * 1000)::bigint - 1000,
    expires_at_ms < (extract(epoch FROM clock_timestamp()) * 1000)::bigint - 2000
FROM syncguard_locks
WHERE key = $1::text
