-- Returns whether the lock of key $1 is live, and whether it expired long enough ago to be cleaned up. No
-- row if there is no lock. clock_timestamp() is the current time even if the transaction began earlier.
SELECT
    expires_at_ms > (extract(epoch FROM clock_timestamp()) * 1000)::bigint - 1000,
    expires_at_ms < (extract(epoch FROM clock_timestamp()) * 1000)::bigint - 2000
FROM syncguard_locks
WHERE key = $1::text
